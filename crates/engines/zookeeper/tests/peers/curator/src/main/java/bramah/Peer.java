package bramah;

import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryForever;

/**
 * Curator, driven by lines: <code>ticket thread object call path [argument...]</code>. Each is answered by
 * <code>ticket ok value</code> or <code>ticket error Class: message</code>, whenever it is done.
 *
 * <p>A thread is one that runs only the calls which name it, so holds are those of a thread in Java. Times are in milliseconds.
 * The arguments are the ensemble and the time-out of its session.
 */
public final class Peer {
    private final CuratorFramework client;
    private final Map<String, InterProcessMutex> locks = new ConcurrentHashMap<>();
    private final Map<String, Deque<Lease>> leases = new ConcurrentHashMap<>();
    private final Map<String, LeaderLatch> latches = new ConcurrentHashMap<>();
    private final Map<InterProcessMutex, CountDownLatch> revoked = new ConcurrentHashMap<>();
    private final Map<String, ExecutorService> executors = new HashMap<>();

    private Peer(CuratorFramework client) {
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        CuratorFramework client =
            CuratorFrameworkFactory.newClient(args[0], Integer.parseInt(args[1]), 10_000, new RetryForever(100));
        client.start();
        client.blockUntilConnected();
        Peer peer = new Peer(client);
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
        ExecutorService executor = executors.computeIfAbsent(words[1], name -> Executors.newSingleThreadExecutor());
        executor.execute(() -> {
            String answer;
            try {
                answer = "ok " + call(words[1], words[2], words[3], words[4], Arrays.copyOfRange(words, 5, words.length));
            } catch (Throwable why) {
                answer = "error " + why.getClass().getSimpleName() + ": " + String.valueOf(why.getMessage()).replace('\n', ' ');
            }
            tell(words[0] + " " + answer);
        });
    }

    private Object call(String thread, String object, String call, String path, String[] args) throws Exception {
        switch (object) {
            case "semaphore":
                return semaphore(thread + " " + path, call, path, args);
            case "latch":
                return latch(call, path, args);
            case "revoker":
                Revoker.attemptRevoke(client, path);
                return "asked";
            default:
                return lock(locks.computeIfAbsent(object + " " + path, key -> find(object, path)), call, args);
        }
    }

    private InterProcessMutex find(String object, String path) {
        switch (object) {
            case "mutex":
                return new InterProcessMutex(client, path);
            case "read":
                return new InterProcessReadWriteLock(client, path).readLock();
            case "write":
                return new InterProcessReadWriteLock(client, path).writeLock();
            default:
                throw new IllegalArgumentException("no object " + object);
        }
    }

    private Object lock(InterProcessMutex lock, String call, String[] args) throws Exception {
        switch (call) {
            case "acquire":
                return lock.acquire(Long.parseLong(args[0]), MILLISECONDS);
            case "release":
                lock.release();
                return "released";
            case "revocable":
                CountDownLatch wish = new CountDownLatch(1);
                revoked.put(lock, wish);
                lock.makeRevocable(asked -> wish.countDown());
                return "revocable";
            case "revoked":
                return revoked.get(lock).await(Long.parseLong(args[0]), MILLISECONDS);
            case "participants":
                return lock.getParticipantNodes().size();
            default:
                throw new IllegalArgumentException("no call " + call);
        }
    }

    private Object semaphore(String key, String call, String path, String[] args) throws Exception {
        Deque<Lease> held = leases.computeIfAbsent(key, name -> new ArrayDeque<>());
        int most = Integer.parseInt(args[0]);
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, most);
        switch (call) {
            case "acquire":
                Collection<Lease> got = semaphore.acquire(Integer.parseInt(args[1]), Long.parseLong(args[2]), MILLISECONDS);
                if (got != null) {
                    held.addAll(got);
                }
                return got != null;
            case "release":
                semaphore.returnLease(held.pop());
                return "released";
            case "count":
                return semaphore.getParticipantNodes().size();
            default:
                throw new IllegalArgumentException("no call " + call);
        }
    }

    private Object latch(String call, String path, String[] args) throws Exception {
        switch (call) {
            case "start":
                LeaderLatch latch = new LeaderLatch(client, path, args[0]);
                latches.put(path, latch);
                latch.start();
                return "started";
            case "await":
                return latches.get(path).await(Long.parseLong(args[0]), MILLISECONDS);
            case "leads":
                return latches.get(path).hasLeadership();
            case "leader":
                return latches.get(path).getLeader().getId();
            case "close":
                latches.remove(path).close();
                return "closed";
            default:
                throw new IllegalArgumentException("no call " + call);
        }
    }
}
