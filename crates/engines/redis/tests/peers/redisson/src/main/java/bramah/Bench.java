package bramah;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.LockSupport;

import com.sun.management.OperatingSystemMXBean;
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * What the benchmark measures of Redisson, driven by lines, with Redisson's own settings.
 *
 * <ul>
 * <li><code>pairs KIND MODE CALLERS MS</code>: each caller locks and unlocks a name of its own. The answer is the number of
 * pairs, the nanoseconds that they took, the nanoseconds of this process's CPU, and the number with those who were late.
 * <li><code>crowd KIND NAME THREADS START END</code>: all want one lock from START to END. The answer is the number of
 * overlaps, a line <code>thread token asked held left</code> for each hold, and <code>end</code>.
 * </ul>
 *
 * <p>KIND is <code>lock</code> or <code>fenced</code>; MODE is <code>threads</code>, one for each caller, or <code>async</code>,
 * where a caller is a chain of futures with a thread id of its own. Times are nanoseconds of a clock that is the second
 * argument ahead of <code>System.nanoTime()</code>; the first one is the address.
 */
public final class Bench {
    private static final OperatingSystemMXBean SYSTEM =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private final RedissonClient client;
    private final long ahead;
    private final AtomicReference<Throwable> trouble = new AtomicReference<>();

    private Bench(RedissonClient client, long ahead) {
        this.client = client;
        this.ahead = ahead;
    }

    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress(args[0]);
        Bench bench = new Bench(Redisson.create(config), Long.parseLong(args[1]));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        out.println("ready");
        out.flush();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("pairs")) {
                bench.pairs(words[1], words[2], Integer.parseInt(words[3]), Long.parseLong(words[4]), out);
            } else {
                bench.crowd(words[1], words[2], Integer.parseInt(words[3]), Long.parseLong(words[4]),
                    Long.parseLong(words[5]), out);
            }
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private RLock find(String kind, String name) {
        return kind.equals("fenced") ? client.getFencedLock(name) : client.getLock(name);
    }

    /** Locks, and returns the token of one that has them. */
    private static long lock(RLock lock) {
        if (lock instanceof RFencedLock) {
            return ((RFencedLock) lock).lockAndGetToken();
        }
        lock.lock();
        return 0;
    }

    private void pairs(String kind, String mode, int callers, long ms, PrintStream out) throws Exception {
        LongAdder pairs = new LongAdder();
        AtomicBoolean over = new AtomicBoolean();
        CountDownLatch go = new CountDownLatch(1);
        CountDownLatch done = new CountDownLatch(callers);
        for (int i = 0; i < callers; i++) {
            RLock lock = find(kind, "java/" + kind + "/" + i);
            if (mode.equals("threads")) {
                start(() -> {
                    go.await();
                    while (!over.get()) {
                        lock(lock);
                        lock.unlock();
                        pairs.increment();
                    }
                }, done);
            } else {
                new Chain(lock, 1_000_000L + i, pairs, over, done).next();
            }
        }
        long cpu = SYSTEM.getProcessCpuTime();
        long began = System.nanoTime();
        go.countDown();
        Thread.sleep(ms);
        // Stragglers do not count, in Redisson's favour.
        long took = System.nanoTime() - began;
        long counted = pairs.sum();
        long used = SYSTEM.getProcessCpuTime() - cpu;
        over.set(true);
        done.await();
        check();
        out.println(counted + " " + took + " " + used + " " + pairs.sum());
    }

    /** One pair after the other, each begun when the one before is done. */
    private final class Chain {
        private final RLock lock;
        private final long id;
        private final LongAdder pairs;
        private final AtomicBoolean over;
        private final CountDownLatch done;

        Chain(RLock lock, long id, LongAdder pairs, AtomicBoolean over, CountDownLatch done) {
            this.lock = lock;
            this.id = id;
            this.pairs = pairs;
            this.over = over;
            this.done = done;
        }

        void next() {
            lock.lockAsync(id).thenCompose(held -> lock.unlockAsync(id)).whenComplete((released, why) -> {
                if (why != null) {
                    trouble.compareAndSet(null, why);
                    done.countDown();
                    return;
                }
                pairs.increment();
                if (over.get()) {
                    done.countDown();
                } else {
                    next();
                }
            });
        }
    }

    private interface Work {
        void run() throws Exception;
    }

    private void start(Work work, CountDownLatch done) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Throwable why) {
                trouble.compareAndSet(null, why);
            } finally {
                done.countDown();
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private void check() {
        Throwable why = trouble.get();
        if (why != null) {
            throw new IllegalStateException(why);
        }
    }

    private long now() {
        return System.nanoTime() + ahead;
    }

    private void crowd(String kind, String name, int threads, long start, long end, PrintStream out) throws Exception {
        CountDownLatch done = new CountDownLatch(threads);
        AtomicBoolean inside = new AtomicBoolean();
        AtomicLong overlaps = new AtomicLong();
        RLock lock = find(kind, name);
        List<List<long[]>> holds = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            List<long[]> own = new ArrayList<>();
            holds.add(own);
            start(() -> {
                LockSupport.parkNanos(start - now());
                for (long asked = now(); asked < end; asked = now()) {
                    long token = lock(lock);
                    long held = now();
                    if (inside.getAndSet(true)) {
                        overlaps.incrementAndGet();
                    }
                    inside.set(false);
                    own.add(new long[] {token, asked, held, now()});
                    lock.unlock();
                }
            }, done);
        }
        done.await();
        check();
        out.println(overlaps.get());
        for (int i = 0; i < threads; i++) {
            for (long[] hold : holds.get(i)) {
                out.println(i + " " + hold[0] + " " + hold[1] + " " + hold[2] + " " + hold[3]);
            }
        }
        out.println("end");
    }
}
