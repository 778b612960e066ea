package rmqpull;

import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Times Apache's push consumer: how fast it reads a topic, and how soon it has a message that was just sent. */
final class Pushed {
    private static final long READ_S_MAX = 600;
    private static final long MESSAGE_S_MAX = 30;
    private static final int CONSUMED_AT_A_TIME = 32;

    private Pushed() { }

    /** Returns the seconds from the creation of the consumer, the only member of a new group, to the last message. */
    static double read(String nameServers, String topic, long rows, long bodyBytes) throws Exception {
        AtomicLong left = new AtomicLong(rows);
        AtomicLong bytes = new AtomicLong();
        CountDownLatch done = new CountDownLatch(1);
        long begun = System.nanoTime();
        DefaultMQPushConsumer consumer = start(nameServers, topic, begun, messages -> {
            for (MessageExt message : messages) {
                bytes.addAndGet(message.getBody().length);
            }
            if (left.addAndGet(-messages.size()) <= 0) {
                done.countDown();
            }
        });
        try {
            if (!done.await(READ_S_MAX, TimeUnit.SECONDS)) {
                throw new IllegalStateException(left + " of " + rows + " messages have not come.");
            }
            double seconds = (System.nanoTime() - begun) / 1e9;
            if (bytes.get() < rows * bodyBytes) {
                throw new IllegalStateException("The bodies of " + rows + " messages have " + bytes + " bytes.");
            }
            return seconds;
        } finally {
            consumer.shutdown();
        }
    }

    /**
     * Sends messages one at a time, each when the one before has arrived and a pause has passed, until there are enough
     * or the time is over. Returns the milliseconds of each, with blanks between them. A first message, which does not
     * count, waits for the consumer.
     */
    static String wake(
            String nameServers, String topic, int messages, long millisecondsMax, int bodyBytes, long pauseMs)
            throws Exception {
        BlockingQueue<Long> arrived = new LinkedBlockingQueue<>();
        long begun = System.nanoTime();
        DefaultMQProducer producer = new DefaultMQProducer("bench-java");
        DefaultMQPushConsumer consumer =
            start(nameServers, topic, begun, all -> all.forEach(message -> arrived.add(System.nanoTime())));
        StringBuilder tookMs = new StringBuilder();
        try {
            producer.setNamesrvAddr(nameServers);
            producer.setInstanceName("producer"); // a heartbeat of a shared instance can delay the consumer by 20 s
            producer.start();
            long first = System.nanoTime();
            for (int number = -1; number < messages; number++) {
                long sent = System.nanoTime();
                if (number == 0) {
                    first = sent;
                } else if (number > 0 && (sent - first) / 1_000_000 >= millisecondsMax) {
                    break;
                }
                SendResult result = producer.send(new Message(topic, new byte[bodyBytes]));
                Long at = arrived.poll(MESSAGE_S_MAX, TimeUnit.SECONDS);
                if (result.getSendStatus() != SendStatus.SEND_OK || at == null) {
                    throw new IllegalStateException("Message " + number + " has not arrived: " + result);
                }
                if (number >= 0) {
                    tookMs.append(number == 0 ? "" : " ").append((at - sent) / 1e6);
                }
                Thread.sleep(pauseMs);
            }
            return tookMs.toString();
        } finally {
            producer.shutdown();
            consumer.shutdown();
        }
    }

    /** Starts the only member of a new group, which begins with the first message. */
    static DefaultMQPushConsumer start(
            String nameServers, String topic, long number, Consumer<List<MessageExt>> take) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("bench-java-" + number);
        consumer.setNamesrvAddr(nameServers);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(CONSUMED_AT_A_TIME);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            take.accept(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }
}
