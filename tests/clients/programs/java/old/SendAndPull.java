package rmqpull.old;

import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What clients of releases that have no other consumers in common do: a producer sends, and a pull consumer reads what it has sent and
 * asks for the end of the queue. Arguments: name server, topic of one queue, group, bodies. Prints a line for each step.
 */
public final class SendAndPull {
    public static void main(String[] arguments) throws Exception {
        String nameServer = arguments[0];
        String topic = arguments[1];
        String group = arguments[2];
        DefaultMQProducer producer = new DefaultMQProducer(group + "-producers");
        producer.setNamesrvAddr(nameServer);
        producer.start();
        for (int at = 3; at < arguments.length; at++) {
            try {
                Message message = new Message(topic, arguments[at].getBytes(StandardCharsets.UTF_8));
                System.out.println("sent " + producer.send(message).getSendStatus());
            } catch (MQClientException failed) {
                System.out.println("failed " + failed.getErrorMessage());
                System.exit(0);
            }
        }
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group);
        consumer.setNamesrvAddr(nameServer);
        consumer.start();
        MessageQueue queue = consumer.fetchSubscribeMessageQueues(topic).iterator().next();
        for (long offset = 0; offset < arguments.length - 3; ) {
            PullResult pulled = consumer.pullBlockIfNotFound(queue, "*", offset, 32);
            if (pulled.getPullStatus() == PullStatus.FOUND) {
                for (MessageExt message : pulled.getMsgFoundList()) {
                    System.out.println("pulled " + new String(message.getBody(), StandardCharsets.UTF_8));
                }
            }
            offset = pulled.getNextBeginOffset();
        }
        System.out.println("end " + consumer.maxOffset(queue));
        System.exit(0);
    }
}
