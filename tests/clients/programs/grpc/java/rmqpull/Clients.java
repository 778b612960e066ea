package rmqpull;

import com.alibaba.fastjson2.JSONObject;
import com.alibaba.fastjson2.JSONWriter;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;

/**
 * Runs many of Apache's gRPC clients in one JVM. Reads one call per line, as JSON, and prints its result: {"client": name,
 * "result": ...} or {"client": name, "error": text}. What a push consumer gets is printed at once: {"client": name,
 * "consumed": message}.
 *
 * <p>{"client": name, "call": "start", "kind": producer|simple|push|litePush, "endpoints": "host:port", ...} starts a
 * client, and {"client": name, "call": "shutdown"} ends it (with inBackground, it returns at once). The classes of the
 * clients have their other calls and options. Each client has a thread of its own: a call that waits delays no other
 * client.
 */
public final class Clients {
    /** One client. */
    interface Client {
        /** Returns the result of a call. Throws Unsupported for one that it does not know. */
        Object call(String call, JSONObject request) throws Exception;

        void close() throws Exception;
    }

    /** This client has no such call. */
    static final class Unsupported extends Exception {
        Unsupported(String what) {
            super(what);
        }
    }

    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final Map<String, Client> CLIENTS = new ConcurrentHashMap<>();
    private static final Map<String, ExecutorService> THREADS = new ConcurrentHashMap<>();
    private static PrintStream output;

    public static void main(String[] arguments) throws Exception {
        output = System.out;
        System.setOut(System.err);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JSONObject request = JSONObject.parseObject(line);
            String name = request.getString("client");
            THREADS.computeIfAbsent(name, Clients::startThread).execute(() -> respond(name, request));
        }
        Runtime.getRuntime().halt(0); // the clients were shut down, or are meant to die
    }

    /** Prints what a client has to say. */
    static synchronized void print(String client, String kind, Object what) {
        output.println(JSONObject.of("client", client, kind, what).toString(JSONWriter.Feature.WriteNulls));
        output.flush();
    }

    /** Returns the configuration of a client. TLS is used only if the request has "tls". */
    static ClientConfiguration configure(JSONObject request) {
        return ClientConfiguration.newBuilder()
            .setEndpoints(request.getString("endpoints"))
            .enableSsl(request.getBooleanValue("tls"))
            .build();
    }

    private static ExecutorService startThread(String client) {
        return Executors.newSingleThreadExecutor(work -> {
            Thread thread = new Thread(work, client);
            thread.setDaemon(true);
            return thread;
        });
    }

    private static void respond(String name, JSONObject request) {
        try {
            print(name, "result", call(name, request));
        } catch (Unsupported unknown) {
            print(name, "error", "unsupported: " + unknown.getMessage());
        } catch (Throwable error) {
            print(name, "error", describe(error));
        }
    }

    private static Object call(String name, JSONObject request) throws Exception {
        String call = request.getString("call");
        if (call.equals("start")) {
            CLIENTS.put(name, start(name, request));
            return null;
        }
        if (call.equals("shutdown")) {
            shutDown(name, request.getBooleanValue("inBackground"));
            return null;
        }
        Client client = CLIENTS.get(name);
        if (client == null) {
            throw new IllegalStateException("There is no client " + name + ".");
        }
        return client.call(call, request);
    }

    private static Client start(String name, JSONObject request) throws Exception {
        switch (request.getString("kind")) {
            case "producer":
                return new ProducerClient(request);
            case "simple":
                return new SimpleClient(request);
            case "push":
                return new PushClient(name, request);
            case "litePush":
                return new LitePushClient(name, request);
            default:
                throw new Unsupported("kind " + request.getString("kind"));
        }
    }

    /** Ends a client. A push consumer may take seconds to end. */
    private static void shutDown(String name, boolean inBackground) throws Exception {
        Client client = CLIENTS.remove(name);
        ExecutorService thread = THREADS.remove(name);
        if (client != null && inBackground) {
            thread.execute(() -> {
                try {
                    client.close();
                } catch (Exception error) {
                    error.printStackTrace();
                }
            });
        } else if (client != null) {
            client.close();
        }
        thread.shutdown();
    }

    /** Returns an error with its causes: that of a client that does not start is in them. */
    private static String describe(Throwable error) {
        StringBuilder text = new StringBuilder(error.toString());
        for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
            if (text.indexOf(cause.toString()) < 0) {
                text.append("; caused by ").append(cause);
            }
        }
        return text.toString();
    }
}
