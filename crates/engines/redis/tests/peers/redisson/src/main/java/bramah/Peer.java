package bramah;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

import org.redisson.RedissonRedLock;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/**
 * Redisson, driven by lines: <code>ticket thread object call name [argument...]</code>. Each is answered by
 * <code>ticket ok value</code> or <code>ticket error Class: message</code>, whenever it is done.
 *
 * <p>A thread is one that runs only the calls which name it, so holds and re-entry are those of a thread in Java. Times are
 * in milliseconds. <code>ticket thread parked</code> asks whether it waits for a message. The first argument is the
 * watchdog's timeout, each other one a client. The locks of a <code>multi</code> or <code>red</code> are
 * <code>name,name</code>, where <code>name#1</code> is one of the second client.
 */
public final class Peer {
    private final List<RedissonClient> clients;
    private final Map<String, RLock> locks = new ConcurrentHashMap<>();
    private final Map<String, ExecutorService> executors = new HashMap<>();
    private final Map<String, Thread> threads = new ConcurrentHashMap<>();

    private Peer(List<RedissonClient> clients) {
        this.clients = clients;
    }

    public static void main(String[] args) throws Exception {
        Peer peer = new Peer(Clients.connect(Arrays.asList(args).subList(1, args.length), Long.parseLong(args[0])));
        tell("ready");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            peer.begin(line.split(" "));
        }
        Runtime.getRuntime().halt(0);
    }

    private static void tell(String line) {
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
    }

    private void begin(String[] words) {
        if (words[2].equals("parked")) {
            tell(words[0] + " ok " + isParked(threads.get(words[1])));
            return;
        }
        ExecutorService executor = executors.computeIfAbsent(words[1], name -> Executors.newSingleThreadExecutor(work -> {
            Thread thread = new Thread(work);
            threads.put(name, thread);
            return thread;
        }));
        executor.execute(() -> {
            String answer;
            try {
                answer = "ok " + call(words[2], words[3], words[4], Arrays.copyOfRange(words, 5, words.length));
            } catch (Throwable why) {
                answer = "error " + why.getClass().getSimpleName() + ": " + String.valueOf(why.getMessage()).replace('\n', ' ');
            }
            tell(words[0] + " " + answer);
        });
    }

    /** Whether it sleeps until it is told of a release: a message that comes earlier may be lost on it. */
    private static boolean isParked(Thread thread) {
        return thread != null && Arrays.stream(thread.getStackTrace())
            .anyMatch(frame -> frame.getClassName().equals("java.util.concurrent.Semaphore"));
    }

    private Object call(String object, String call, String name, String[] args) throws Exception {
        switch (object) {
            case "semaphore":
                return semaphore(clients.get(0).getSemaphore(name), call, numbers(args));
            case "permits":
                return permits(clients.get(0).getPermitExpirableSemaphore(name), call, args);
            case "latch":
                return latch(clients.get(0).getCountDownLatch(name), call, numbers(args));
            default:
                RLock lock = locks.computeIfAbsent(object + " " + name, key -> find(object, name));
                return call.equals("count") ? count(lock, args) : lock(lock, call, numbers(args));
        }
    }

    private static long[] numbers(String[] args) {
        return Arrays.stream(args).mapToLong(Long::parseLong).toArray();
    }

    private RLock find(String object, String name) {
        RedissonClient client = clients.get(0);
        switch (object) {
            case "lock":
                return client.getLock(name);
            case "fair":
                return client.getFairLock(name);
            case "fenced":
                return client.getFencedLock(name);
            case "read":
                return client.getReadWriteLock(name).readLock();
            case "write":
                return client.getReadWriteLock(name).writeLock();
            case "multi":
                return client.getMultiLock(members(name));
            case "red":
                return new RedissonRedLock(members(name));
            default:
                throw new IllegalArgumentException("no object " + object);
        }
    }

    private RLock[] members(String names) {
        return Arrays.stream(names.split(",")).map(name -> {
            int mark = name.indexOf('#');
            RedissonClient client = clients.get(mark < 0 ? 0 : Integer.parseInt(name.substring(mark + 1)));
            return client.getLock(mark < 0 ? name : name.substring(0, mark));
        }).toArray(RLock[]::new);
    }

    private Object lock(RLock lock, String call, long[] args) throws Exception {
        switch (call) {
            case "lock":
                if (args.length == 0) {
                    lock.lock();
                } else {
                    lock.lock(args[0], MILLISECONDS);
                }
                return "held";
            case "tryLock":
                switch (args.length) {
                    case 0:
                        return lock.tryLock();
                    case 1:
                        return lock.tryLock(args[0], MILLISECONDS);
                    default:
                        return lock.tryLock(args[0], args[1], MILLISECONDS);
                }
            case "unlock":
                lock.unlock();
                return "released";
            case "forceUnlock":
                return lock.forceUnlock();
            case "isLocked":
                return lock.isLocked();
            case "isHeldByCurrentThread":
                return lock.isHeldByCurrentThread();
            case "getHoldCount":
                return lock.getHoldCount();
            case "remainTimeToLive":
                return lock.remainTimeToLive();
            case "lockAndGetToken":
                return ((RFencedLock) lock).lockAndGetToken();
            case "getToken":
                return ((RFencedLock) lock).getToken();
            case "owner":
                return clients.get(0).getId() + ":" + Thread.currentThread().getId();
            default:
                throw new IllegalArgumentException("no call " + call);
        }
    }

    /** So many times: takes the lock, and adds one to the number in a file, slowly. */
    private static Object count(RLock lock, String[] args) throws Exception {
        Path file = Path.of(args[0]);
        for (int left = Integer.parseInt(args[1]); left > 0; left--) {
            lock.lock();
            int number = Integer.parseInt(Files.readString(file));
            Thread.sleep(Long.parseLong(args[2]));
            Files.writeString(file, Integer.toString(number + 1));
            lock.unlock();
        }
        return "counted";
    }

    private static Object semaphore(RSemaphore semaphore, String call, long[] args) throws Exception {
        int permits = args.length == 0 ? 1 : (int) args[0];
        switch (call) {
            case "trySetPermits":
                return semaphore.trySetPermits(permits);
            case "acquire":
                semaphore.acquire(permits);
                return "held";
            case "tryAcquire":
                return args.length < 2
                    ? semaphore.tryAcquire(permits)
                    : semaphore.tryAcquire(permits, args[1], MILLISECONDS);
            case "release":
                semaphore.release(permits);
                return "released";
            case "availablePermits":
                return semaphore.availablePermits();
            default:
                throw new IllegalArgumentException("no call " + call);
        }
    }

    private static Object permits(RPermitExpirableSemaphore semaphore, String call, String[] args) throws Exception {
        switch (call) {
            case "trySetPermits":
                return semaphore.trySetPermits(Integer.parseInt(args[0]));
            case "acquire":
                return args.length == 0 ? semaphore.acquire() : semaphore.acquire(Long.parseLong(args[0]), MILLISECONDS);
            case "tryAcquire":
                return args.length == 0
                    ? semaphore.tryAcquire()
                    : semaphore.tryAcquire(Long.parseLong(args[0]), Long.parseLong(args[1]), MILLISECONDS);
            case "release":
                semaphore.release(args[0]);
                return "released";
            case "availablePermits":
                return semaphore.availablePermits();
            case "getPermits":
                return semaphore.getPermits();
            default:
                throw new IllegalArgumentException("no call " + call);
        }
    }

    private static Object latch(RCountDownLatch latch, String call, long[] args) throws Exception {
        switch (call) {
            case "trySetCount":
                return latch.trySetCount(args[0]);
            case "countDown":
                latch.countDown();
                return "counted";
            case "await":
                if (args.length == 0) {
                    latch.await();
                    return true;
                }
                return latch.await(args[0], MILLISECONDS);
            case "getCount":
                return latch.getCount();
            default:
                throw new IllegalArgumentException("no call " + call);
        }
    }
}
