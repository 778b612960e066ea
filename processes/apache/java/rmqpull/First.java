package rmqpull;

import java.io.PrintStream;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends a message, and prints "first" when a push consumer has it. It is what a test does first, so its JVM is new.
 *
 * <p>usage: First NAME_SERVERS TOPIC
 */
public final class First {
    public static void main(String[] arguments) throws Exception {
        PrintStream output = System.out;
        System.setOut(System.err); // what Apache's classes print is no result
        CountDownLatch arrived = new CountDownLatch(1);
        DefaultMQProducer producer = new DefaultMQProducer("first");
        producer.setNamesrvAddr(arguments[0]);
        producer.setInstanceName("producer"); // a heartbeat of a shared instance can delay the consumer by 20 s
        producer.start();
        producer.send(new Message(arguments[1], new byte[] {1}));
        DefaultMQPushConsumer consumer =
            Pushed.start(arguments[0], arguments[1], System.nanoTime(), messages -> arrived.countDown());
        arrived.await();
        output.println("first");
        output.flush();
        Runtime.getRuntime().halt(0);
    }
}
