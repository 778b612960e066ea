package rmqpull;

import com.alibaba.fastjson2.JSONObject;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;

/**
 * A push consumer of lite topics. Options: group, topic (the one that has the lite topics), fail. Calls:
 *
 * <pre>
 * subscribe liteTopic, unsubscribe liteTopic
 * </pre>
 */
final class LitePushClient implements Clients.Client {
    private final LitePushConsumer consumer;

    LitePushClient(String name, JSONObject request) throws Exception {
        consumer = Clients.PROVIDER.newLitePushConsumerBuilder()
            .setClientConfiguration(Clients.configure(request))
            .setConsumerGroup(request.getString("group"))
            .bindTopic(request.getString("topic"))
            .setMessageListener(new FailingListener(name, request.getIntValue("fail")))
            .build();
    }

    @Override
    public Object call(String call, JSONObject request) throws Exception {
        switch (call) {
            case "subscribe":
                consumer.subscribeLite(request.getString("liteTopic"));
                return null;
            case "unsubscribe":
                consumer.unsubscribeLite(request.getString("liteTopic"));
                return null;
            default:
                throw new Clients.Unsupported(call);
        }
    }

    @Override
    public void close() throws Exception {
        consumer.close();
    }
}
