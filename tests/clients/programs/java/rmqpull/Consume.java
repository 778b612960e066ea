package rmqpull;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.io.PrintStream;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Consumes a topic with Apache's consumers, and prints each message as JSON. Ends when its input ends.
 *
 * <p>usage: Consume NAME_SERVERS push|retry|pull GROUP TOPIC EXPRESSION_TYPE EXPRESSION [ACCESS_KEY SECRET_KEY]
 *
 * <p>push is a member of the group; retry is one that sends each message back; pull reads all queues from their begin,
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
        RPCHook keys = arguments.length > 6 ? Keys.hook(arguments[6], arguments[7]) : null;
        MessageSelector selector = arguments[4].equals("SQL92")
            ? MessageSelector.bySql(arguments[5]) : MessageSelector.byTag(arguments[5]);
        if (arguments[1].equals("pull")) {
            pull(arguments[0], arguments[2], arguments[3], keys);
        } else {
            push(arguments[0], arguments[2], arguments[3], selector, keys, arguments[1].equals("retry"));
        }
    }

    private static void push(
            String nameServers, String group, String topic, MessageSelector selector, RPCHook keys, boolean isRefusing)
            throws Exception {
        DefaultMQPushConsumer consumer = keys == null
            ? new DefaultMQPushConsumer(group) : new DefaultMQPushConsumer(null, group, keys);
        consumer.setNamesrvAddr(nameServers);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, selector);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            print(messages);
            return isRefusing ? ConsumeConcurrentlyStatus.RECONSUME_LATER : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        printLine("ready");
        Thread.sleep(Long.MAX_VALUE);
    }

    private static void pull(String nameServers, String group, String topic, RPCHook keys) throws Exception {
        DefaultLitePullConsumer consumer = keys == null
            ? new DefaultLitePullConsumer(group) : new DefaultLitePullConsumer(group, keys);
        consumer.setNamesrvAddr(nameServers);
        consumer.setAutoCommit(false);
        // Not seekToBegin: the pull that assign() has started may take over the place that a seek sets, or set its own.
        // Then messages are skipped, or come twice.
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
