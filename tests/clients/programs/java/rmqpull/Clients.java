package rmqpull;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Runs many of Apache's clients in one JVM. Reads one call per line, as JSON, and prints its result: {"result": ...} or
 * {"error": text}. What a push consumer consumes is printed at once: {"client": name, "consumed": message}.
 *
 * <p>{"client": name, "call": "start", "kind": push|producer|litePull|oldPull, "nameServers": addresses,
 * "group": group, ...} starts a client, and {"client": name, "call": "shutdown"} ends it (with
 * inBackground, it returns at once). The classes of the clients
 * have their other calls. Clients are named by their instance names, so that the order of a group's members is known.
 */
public final class Clients {
    /** One client. */
    interface Client {
        Object call(String name, JSONObject request) throws Exception;

        void shutdown();
    }

    private static final int EVERY_MS = 1000;
    private static final Map<String, Client> CLIENTS = new ConcurrentHashMap<>();
    private static PrintStream output;

    public static void main(String[] arguments) throws Exception {
        output = System.out;
        System.setOut(System.err);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JSONObject response = new JSONObject(true);
            try {
                response.put("result", call(JSON.parseObject(line)));
            } catch (Exception error) {
                response.put("error", error.toString());
            }
            print(response);
        }
        Runtime.getRuntime().halt(0); // the clients were shut down, or are meant to die
    }

    /** Returns a client by its name. */
    static Client find(String name) {
        return CLIENTS.get(name);
    }

    static synchronized void print(JSONObject line) {
        output.println(Oracle.text(line));
        output.flush();
    }

    /** Sets what all clients have in common. They look at routes and members each second, instead of every 20 s or 30 s. */
    static void configure(ClientConfig client, JSONObject request) {
        client.setNamesrvAddr(request.getString("nameServers"));
        client.setInstanceName(request.getString("client"));
        client.setPollNameServerInterval(EVERY_MS);
        client.setHeartbeatBrokerInterval(EVERY_MS);
        client.setPersistConsumerOffsetInterval(EVERY_MS);
    }

    static MessageQueue queue(JSONObject request) {
        return new MessageQueue(request.getString("topic"), request.getString("broker"), request.getIntValue("queue"));
    }

    /** Returns queues as [[topic, broker, queue], ...], in order. */
    static JSONArray write(Collection<MessageQueue> queues) {
        JSONArray all = new JSONArray();
        queues.stream().sorted().forEach(queue -> {
            JSONArray one = new JSONArray();
            one.add(queue.getTopic());
            one.add(queue.getBrokerName());
            one.add(queue.getQueueId());
            all.add(one);
        });
        return all;
    }

    private static Object call(JSONObject request) throws Exception {
        String name = request.getString("client");
        switch (request.getString("call")) {
            case "start":
                CLIENTS.put(name, start(request));
                return null;
            case "shutdown":
                Client client = CLIENTS.remove(name);
                if (request.getBooleanValue("inBackground")) { // it may take three seconds
                    Thread thread = new Thread(client::shutdown, "shutdown");
                    thread.setDaemon(true);
                    thread.start();
                } else {
                    client.shutdown();
                }
                return null;
            default:
                return CLIENTS.get(name).call(request.getString("call"), request);
        }
    }

    private static Client start(JSONObject request) throws Exception {
        switch (request.getString("kind")) {
            case "push":
                return new PushClient(request);
            case "litePull":
                return new LitePullClient(request);
            case "oldPull":
                return new OldPullClient(request);
            default:
                return new ProducerClient(request);
        }
    }
}
