package rmqpull;

import com.alibaba.fastjson2.JSONObject;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.PushConsumerBuilder;

/**
 * A push consumer. Options: group, subscriptions, sql, fail (see FailingListener), hold (see HoldingListener), threads,
 * cacheMessages, accelerated (several message groups of a FIFO group at a time). Calls:
 *
 * <pre>
 * subscribe topic expression, unsubscribe topic, letGo
 * </pre>
 */
final class PushClient implements Clients.Client {
    private final PushConsumer consumer;
    private final HoldingListener listener;

    PushClient(String name, JSONObject request) throws Exception {
        listener = new HoldingListener(
            new FailingListener(name, request.getIntValue("fail")), request.getBooleanValue("hold"));
        PushConsumerBuilder builder = Clients.PROVIDER.newPushConsumerBuilder()
            .setClientConfiguration(Clients.configure(request))
            .setConsumerGroup(request.getString("group"))
            .setSubscriptionExpressions(Messages.subscriptions(request))
            .setMessageListener(listener);
        if (request.containsKey("threads")) {
            builder.setConsumptionThreadCount(request.getIntValue("threads"));
        }
        if (request.containsKey("cacheMessages")) {
            builder.setMaxCacheMessageCount(request.getIntValue("cacheMessages"));
        }
        if (request.containsKey("accelerated")) {
            builder.setEnableFifoConsumeAccelerator(request.getBooleanValue("accelerated"));
        }
        consumer = builder.build();
    }

    @Override
    public Object call(String call, JSONObject request) throws Exception {
        switch (call) {
            case "subscribe":
                String expression = request.getString("expression");
                consumer.subscribe(request.getString("topic"), Messages.filter(request, expression));
                return null;
            case "unsubscribe":
                consumer.unsubscribe(request.getString("topic"));
                return null;
            case "letGo":
                listener.letGo();
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
