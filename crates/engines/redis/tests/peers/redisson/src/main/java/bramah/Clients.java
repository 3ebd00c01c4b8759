package bramah;

import java.util.ArrayList;
import java.util.List;

import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.SingleServerConfig;

/** Clients from addresses: <code>redis://host:port</code>, or several with commas between them for a cluster. */
final class Clients {
    private Clients() {
    }

    private static RedissonClient connect(String addresses, long watchdogMs, boolean patient) {
        Config config = new Config();
        config.setLockWatchdogTimeout(watchdogMs);
        config.setThreads(4);
        config.setNettyThreads(4);
        String[] nodes = addresses.split(",");
        if (nodes.length == 1) {
            SingleServerConfig server = config.useSingleServer().setAddress(nodes[0]).setConnectionMinimumIdleSize(4);
            if (!patient) {
                server.setTimeout(10_000).setRetryAttempts(0);
            }
        } else {
            config.useClusterServers().addNodeAddress(nodes)
                .setMasterConnectionMinimumIdleSize(2).setSlaveConnectionMinimumIdleSize(2);
        }
        return Redisson.create(config);
    }

    /** Of several masters one that refuses is not asked again. */
    static List<RedissonClient> connect(List<String> each, long watchdogMs) {
        List<RedissonClient> clients = new ArrayList<>();
        for (String addresses : each) {
            clients.add(connect(addresses, watchdogMs, each.size() == 1));
        }
        return clients;
    }
}
