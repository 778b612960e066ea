package rmqpull;

import com.alibaba.fastjson2.JSONObject;
import com.sun.management.OperatingSystemMXBean;
import java.io.Closeable;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorCompletionService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * Times Apache's gRPC client. Arguments: ENDPOINTS TOPIC GROUP MODE CONSUMERS COUNT. The modes:
 *
 * <ul>
 *   <li>send: one producer sends COUNT messages from as many threads as CONSUMERS says. Its times are those of a send.
 *   <li>consume: simple consumers receive and acknowledge COUNT messages that the topic has, in batches of 32. The times
 *       are those of a batch: until its last acknowledgement.
 *   <li>latency: simple consumers wait, and one message at a time is sent. The times are from the start of a send until a
 *       consumer has the message.
 * </ul>
 *
 * <p>Prints one line of JSON: messages, seconds and processorSeconds (of this process) without the start of the clients,
 * p50Ms and p99Ms. Ends with 1 and an exception when a message is missing or is received twice.
 */
public final class Bench {
    private static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    private static final int BATCH = 32; // a proxy gives no more
    private static final int BODY_BYTES = 100;
    private static final Duration INVISIBLE = Duration.ofMinutes(10); // longer than a run: nothing comes twice
    private static final Duration AWAIT = Duration.ofSeconds(20);
    private static final long PAUSE_MS = 5; // until the consumer waits again
    private static final long MISSING_AFTER_S = 60;

    private final String topic;
    private final String group;
    private final int consumers;
    private final int count;
    private final ClientConfiguration configuration;
    private final Deque<Closeable> started = new ArrayDeque<>();

    private Bench(String[] arguments) {
        configuration = ClientConfiguration.newBuilder().setEndpoints(arguments[0]).enableSsl(false).build();
        topic = arguments[1];
        group = arguments[2];
        consumers = Integer.parseInt(arguments[4]);
        count = Integer.parseInt(arguments[5]);
    }

    public static void main(String[] arguments) {
        PrintStream output = System.out;
        System.setOut(System.err); // what the client prints is no result
        int code = 0;
        try {
            output.println(new Bench(arguments).run(arguments[3]));
        } catch (Exception error) {
            error.printStackTrace();
            code = 1;
        }
        output.flush();
        Runtime.getRuntime().halt(code); // a consumer that waits would hold its end up
    }

    private JSONObject run(String mode) throws Exception {
        Work work = prepare(mode);
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long processor = system.getProcessCpuTime();
        long begun = System.nanoTime();
        long[] times = work.run();
        JSONObject result = JSONObject.of("messages", count, "seconds", (System.nanoTime() - begun) / 1e9);
        result.put("processorSeconds", (system.getProcessCpuTime() - processor) / 1e9);
        Arrays.sort(times);
        result.put("p50Ms", times[times.length / 2] / 1e6);
        result.put("p99Ms", times[(int) Math.min(times.length - 1, Math.ceil(times.length * 0.99))] / 1e6);
        while (!started.isEmpty()) {
            started.pop().close();
        }
        return result;
    }

    /** What is timed. Returns the nanoseconds of its parts. */
    private interface Work {
        long[] run() throws Exception;
    }

    private Work prepare(String mode) throws Exception {
        switch (mode) {
            case "send":
                Producer sender = startProducer();
                return () -> send(sender);
            case "consume":
                List<SimpleConsumer> readers = startConsumers();
                return () -> consume(readers);
            case "latency":
                List<SimpleConsumer> waiting = startConsumers();
                Producer producer = startProducer();
                return () -> wake(waiting, producer);
            default:
                throw new IllegalArgumentException("The mode is send, consume or latency, and not " + mode + ".");
        }
    }

    private Producer startProducer() throws Exception {
        Producer producer = PROVIDER.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
        started.push(producer);
        return producer;
    }

    private List<SimpleConsumer> startConsumers() throws Exception {
        List<SimpleConsumer> all = new ArrayList<>();
        for (int number = 0; number < consumers; number++) {
            all.add(PROVIDER.newSimpleConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(group)
                .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
                .setAwaitDuration(AWAIT)
                .build());
        }
        return all; // not closed one by one: each would wait for its last receive
    }

    // ---- sending

    private long[] send(Producer producer) throws Exception {
        long[] times = new long[count];
        AtomicInteger next = new AtomicInteger();
        runThreads(consumers, () -> {
            for (int number = next.getAndIncrement(); number < count; number = next.getAndIncrement()) {
                long begun = System.nanoTime();
                producer.send(message(begun));
                times[number] = System.nanoTime() - begun;
            }
            return null;
        });
        return times;
    }

    private Message message(long nanos) {
        byte[] body = ByteBuffer.allocate(BODY_BYTES).putLong(nanos).array();
        return PROVIDER.newMessageBuilder().setTopic(topic).setBody(body).build();
    }

    // ---- receiving

    private long[] consume(List<SimpleConsumer> readers) throws Exception {
        Set<String> seen = ConcurrentHashMap.newKeySet(count);
        BlockingQueue<Long> batches = new LinkedBlockingQueue<>();
        AtomicInteger acknowledged = new AtomicInteger();
        CompletableFuture<Void> end = new CompletableFuture<>();
        for (SimpleConsumer reader : readers) {
            startThread(end, () -> {
                while (!end.isDone()) {
                    long begun = System.nanoTime();
                    int received = receive(reader, seen).size();
                    batches.add(System.nanoTime() - begun);
                    if (acknowledged.addAndGet(received) == count) {
                        end.complete(null);
                    }
                }
                return null;
            });
        }
        int known = -1;
        while (!end.isDone()) { // a reader that waits for a message which never comes has no error
            await(end);
            if (!end.isDone() && acknowledged.get() == known) {
                throw new IllegalStateException("After " + known + " of " + count + " messages, no more come.");
            }
            known = acknowledged.get();
        }
        end.get();
        return batches.stream().mapToLong(Long::longValue).toArray();
    }

    /** Receives a batch and returns it when all of it is acknowledged. */
    private static List<MessageView> receive(SimpleConsumer reader, Set<String> seen) throws Exception {
        List<MessageView> batch = reader.receive(BATCH, INVISIBLE);
        CompletableFuture<?>[] acks = batch.stream().map(reader::ackAsync).toArray(CompletableFuture[]::new);
        CompletableFuture.allOf(acks).get(MISSING_AFTER_S, TimeUnit.SECONDS);
        for (MessageView message : batch) {
            if (!seen.add(message.getMessageId().toString())) {
                throw new IllegalStateException("Message " + message.getMessageId() + " has come twice.");
            }
        }
        return batch;
    }

    /** Sends a message when the one before has been received, and returns how long each was on its way. */
    private long[] wake(List<SimpleConsumer> waiting, Producer producer) throws Exception {
        Set<String> seen = ConcurrentHashMap.newKeySet(count);
        BlockingQueue<Long> arrived = new LinkedBlockingQueue<>();
        CompletableFuture<Void> failed = new CompletableFuture<>();
        for (SimpleConsumer reader : waiting) {
            startThread(failed, () -> {
                while (true) {
                    List<MessageView> batch = reader.receive(BATCH, INVISIBLE);
                    long now = System.nanoTime();
                    for (MessageView message : batch) {
                        reader.ack(message);
                        if (!seen.add(message.getMessageId().toString())) {
                            throw new IllegalStateException("Message " + message.getMessageId() + " has come twice.");
                        }
                        arrived.add(now - message.getBody().getLong());
                    }
                }
            });
        }
        long[] times = new long[count];
        for (int number = 0; number < count; number++) {
            Thread.sleep(PAUSE_MS);
            producer.send(message(System.nanoTime()));
            Long time = arrived.poll(MISSING_AFTER_S, TimeUnit.SECONDS);
            if (failed.isDone()) {
                failed.get();
            }
            if (time == null) {
                throw new IllegalStateException("Message " + number + " has not come within " + MISSING_AFTER_S + " s.");
            }
            times[number] = time;
        }
        return times;
    }

    // ---- threads

    /** Runs work in this many threads. Returns when all have ended, or throws the first error. */
    private static void runThreads(int threads, Callable<Void> work) throws Exception {
        ExecutorService executor = Executors.newFixedThreadPool(threads);
        ExecutorCompletionService<Void> ended = new ExecutorCompletionService<>(executor);
        for (int number = 0; number < threads; number++) {
            ended.submit(work);
        }
        for (int number = 0; number < threads; number++) {
            ended.take().get();
        }
        executor.shutdown();
    }

    /** Starts a thread whose error ends {@code end}. */
    private static void startThread(CompletableFuture<Void> end, Callable<Void> work) {
        Thread thread = new Thread(() -> {
            try {
                work.call();
            } catch (Throwable error) {
                end.completeExceptionally(error);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    /** Returns at the end, or after so long that a message must have arrived. */
    private static void await(CompletableFuture<Void> end) throws Exception {
        try {
            end.get(MISSING_AFTER_S, TimeUnit.SECONDS);
        } catch (java.util.concurrent.TimeoutException none) {
            // the caller looks whether anything has come
        }
    }
}
