package rmqpull;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.PrintStream;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Consumes a topic with Apache's consumers, and prints each message as JSON. Ends when its input ends.
 *
 * <p>usage: Consume NAME_SERVERS push|pull GROUP TOPIC
 *
 * <p>push is a member of the group; pull reads all queues from their beginning,
 * without a filter and without a consumer offset.
 */
public final class Consume {
    private static PrintStream output;

    public static void main(String[] arguments) throws Exception {
        output = System.out;
        System.setOut(System.err);
        Thread end = new Thread(Consume::endWithInput, "end-with-input");
        end.setDaemon(true);
        end.start();
        if (arguments[1].equals("pull")) {
            pull(arguments[0], arguments[2], arguments[3]);
        } else {
            push(arguments[0], arguments[2], arguments[3]);
        }
    }

    private static void push(String nameServers, String group, String topic) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(nameServers);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            print(messages);
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        printLine("ready");
        Thread.sleep(Long.MAX_VALUE);
    }

    private static void pull(String nameServers, String group, String topic) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(nameServers);
        consumer.setAutoCommit(false);
        // Not seekToBegin: the pull that assign() has started may take over the place that a seek sets, or set its own.
        // Then messages are skipped, or read twice.
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.start();
        consumer.assign(consumer.fetchMessageQueues(topic));
        printLine("ready");
        while (true) {
            print(consumer.poll(1000));
        }
    }

    private static synchronized void print(List<MessageExt> messages) {
        JSONArray all = Records.writeAll(messages);
        for (int i = 0; i < all.size(); i++) {
            JSONObject message = all.getJSONObject(i);
            message.put("broker", messages.get(i).getBrokerName());
            printLine(Oracle.text(message));
        }
    }

    private static synchronized void printLine(String line) {
        output.println(line);
        output.flush();
    }

    private static void endWithInput() {
        try {
            while (System.in.read() >= 0) { }
        } catch (java.io.IOException closed) {
            // The same as the end.
        }
        Runtime.getRuntime().halt(0);
    }
}
