package rmqpull;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Reads and writes topics with Apache's clients, and times it. One process serves many runs, so that its code is
 * compiled and warm. Reads one command per line, and prints its seconds, or "error: " and the reason:
 *
 * <pre>
 * read NAME_SERVERS TOPIC ROWS BODY_BYTES PULL_BATCH_SIZE
 * push NAME_SERVERS TOPIC ROWS BODY_BYTES
 * write NAME_SERVERS TOPIC ROWS BODY_BYTES MESSAGES_PER_BATCH THREADS
 * fill NAME_SERVERS TOPIC ROWS BODY_BYTES MESSAGES_PER_BATCH THREADS
 * wake NAME_SERVERS TOPIC MESSAGES BODY_BYTES PAUSE_MS
 * wakefor NAME_SERVERS TOPIC MILLISECONDS BODY_BYTES PAUSE_MS
 * </pre>
 *
 * <p>A fill sends the batches to all queues in turn. A write leaves the choice of the queue to the producer. A write
 * with one message per batch sends messages, not batches. Wake prints the milliseconds from the start of each send
 * until a waiting push consumer has the message; wakefor does it for a time, not for a number of messages.
 */
public final class Bench {
    private static final long POLL_MS = 1_000;
    private static final int EMPTY_POLLS_MAX = 60;
    private static final int SYSTEM_BUSY = 2; // ResponseCode is in another package in 4.x
    private static final int BUSY_TRIES_MAX = 100;
    private static final long BUSY_PAUSE_MS = 50;

    public static void main(String[] arguments) throws Exception {
        PrintStream output = System.out;
        System.setOut(System.err); // what Apache's classes print is no response
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split(" ");
            try {
                output.println(run(words));
            } catch (Exception error) {
                error.printStackTrace();
                output.println("error: " + error);
            }
            output.flush();
        }
        System.exit(0);
    }

    private static String run(String[] words) throws Exception {
        switch (words[0]) {
            case "read":
                return String.valueOf(read(words));
            case "push":
                return String.valueOf(Pushed.read(words[1], words[2], Long.parseLong(words[3]), Long.parseLong(words[4])));
            case "wake":
                return Pushed.wake(
                    words[1], words[2], Integer.parseInt(words[3]), Long.MAX_VALUE, Integer.parseInt(words[4]), Long.parseLong(words[5]));
            case "wakefor":
                return Pushed.wake(
                    words[1], words[2], Integer.MAX_VALUE, Long.parseLong(words[3]), Integer.parseInt(words[4]), Long.parseLong(words[5]));
            default:
                return String.valueOf(write(words, words[0].equals("fill")));
        }
    }

    // ---- reading

    /** Returns the seconds from the creation of the consumer until it has given out the last message. */
    private static double read(String[] words) throws Exception {
        long rows = Long.parseLong(words[3]);
        long begun = System.nanoTime();
        // A new group begins with the first message. A seek could come after the first pulls, and repeat messages.
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("bench-java-" + begun);
        try {
            consumer.setNamesrvAddr(words[1]);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            consumer.setPullBatchSize(Integer.parseInt(words[5]));
            consumer.start();
            consumer.assign(consumer.fetchMessageQueues(words[2]));
            long bytes = count(consumer, rows);
            double seconds = (System.nanoTime() - begun) / 1e9;
            if (bytes != rows * Long.parseLong(words[4])) {
                throw new IllegalStateException("The bodies of " + rows + " messages have " + bytes + " bytes.");
            }
            return seconds;
        } finally {
            consumer.shutdown();
        }
    }

    /** Polls until it has so many messages. Returns the bytes of their bodies. */
    private static long count(DefaultLitePullConsumer consumer, long rows) {
        long read = 0;
        long bytes = 0;
        int emptyPolls = 0;
        while (read < rows) {
            List<MessageExt> messages = consumer.poll(POLL_MS);
            emptyPolls = messages.isEmpty() ? emptyPolls + 1 : 0;
            if (emptyPolls == EMPTY_POLLS_MAX) {
                throw new IllegalStateException("After " + read + " of " + rows + " messages, no more come.");
            }
            for (MessageExt message : messages) {
                bytes += message.getBody().length;
            }
            read += messages.size();
        }
        if (read > rows) {
            throw new IllegalStateException("It has read " + read + " messages instead of " + rows + ".");
        }
        return bytes;
    }

    // ---- writing

    /** Returns the seconds from the creation of the producer until the broker has stored the last message. */
    private static double write(String[] words, boolean isFill) throws Exception {
        long rows = Long.parseLong(words[3]);
        int threads = Integer.parseInt(words[6]);
        long begun = System.nanoTime();
        DefaultMQProducer producer = new DefaultMQProducer("bench-java");
        ExecutorService executor = Executors.newFixedThreadPool(threads);
        try {
            producer.setNamesrvAddr(words[1]);
            producer.start();
            List<MessageQueue> queues = isFill ? producer.fetchPublishMessageQueues(words[2]) : null;
            List<Future<?>> parts = new ArrayList<>();
            for (int thread = 0; thread < threads; thread++) {
                Part part = new Part(producer, words[2], queues, Integer.parseInt(words[4]), Integer.parseInt(words[5]));
                long from = rows * thread / threads;
                long until = rows * (thread + 1) / threads;
                parts.add(executor.submit(() -> part.send(from, until)));
            }
            for (Future<?> part : parts) {
                part.get();
            }
            return (System.nanoTime() - begun) / 1e9;
        } finally {
            executor.shutdownNow();
            producer.shutdown();
        }
    }

    /** What one thread sends. */
    private static final class Part {
        private final DefaultMQProducer producer;
        private final String topic;
        private final List<MessageQueue> queues;
        private final int bodyBytes;
        private final int perBatch;

        Part(DefaultMQProducer producer, String topic, List<MessageQueue> queues, int bodyBytes, int perBatch) {
            this.producer = producer;
            this.topic = topic;
            this.queues = queues;
            this.bodyBytes = bodyBytes;
            this.perBatch = perBatch;
        }

        Void send(long from, long until) throws Exception {
            for (long first = from; first < until; first += perBatch) {
                List<Message> batch = new ArrayList<>(perBatch);
                for (long number = first; number < Math.min(until, first + perBatch); number++) {
                    Message message = new Message(topic, body(number));
                    message.putUserProperty("source", "bench");
                    batch.add(message);
                }
                send(batch, queues == null ? null : queues.get((int) (first / perBatch % queues.size())));
            }
            return null;
        }

        /** Sends a batch. A broker that is too busy has stored nothing, so the batch is sent again after a pause. */
        private void send(List<Message> batch, MessageQueue queue) throws Exception {
            for (int left = BUSY_TRIES_MAX; ; left--) {
                try {
                    SendResult result = send(queue, batch);
                    if (result.getSendStatus() != SendStatus.SEND_OK) {
                        throw new IllegalStateException("The broker has not stored a batch: " + result);
                    }
                    return;
                } catch (MQBrokerException refused) {
                    if (refused.getResponseCode() != SYSTEM_BUSY || left == 0) {
                        throw refused;
                    }
                    Thread.sleep(BUSY_PAUSE_MS);
                }
            }
        }

        private SendResult send(MessageQueue queue, List<Message> batch) throws Exception {
            if (perBatch == 1) {
                return queue == null ? producer.send(batch.get(0)) : producer.send(batch.get(0), queue);
            }
            return queue == null ? producer.send(batch) : producer.send(batch, queue);
        }

        /** Returns the number with zeros before it. */
        private byte[] body(long number) {
            byte[] body = new byte[bodyBytes];
            for (int at = bodyBytes - 1; at >= 0; at--) {
                body[at] = (byte) ('0' + number % 10);
                number /= 10;
            }
            return body;
        }
    }
}
