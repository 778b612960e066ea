package rmqpull;

import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;

/** Stored messages as JSON, read and written by Apache's MessageDecoder. */
final class Records {
    /** Decodes the body of a pull response as a client does. With unwrap, messages of inner batches become single ones. */
    static JSONArray decode(byte[] data, boolean unwrap) throws Exception {
        List<MessageExt> messages = new ArrayList<>();
        for (MessageExt message : MessageDecoder.decodes(ByteBuffer.wrap(data))) {
            if (unwrap && (message.getSysFlag() & 0xC0) == 0xC0) {
                Method decode = MessageDecoder.class.getMethod("decodeMessage", MessageExt.class, List.class); // not in 4.x
                decode.invoke(null, message, messages);
            } else {
                messages.add(message);
            }
        }
        return writeAll(messages);
    }

    /** Encodes a stored message. A body is compressed if its sysFlag says so. */
    static byte[] encode(JSONObject json) throws Exception {
        MessageExt message = new MessageExt();
        message.setTopic(json.getString("topic"));
        message.setQueueId(json.getIntValue("queueId"));
        message.setFlag(json.getIntValue("flag"));
        message.setQueueOffset(json.getLongValue("queueOffset"));
        message.setCommitLogOffset(json.getLongValue("commitLogOffset"));
        message.setSysFlag(json.getIntValue("sysFlag"));
        message.setBornTimestamp(json.getLongValue("bornTimestamp"));
        message.setBornHost(address(json.getString("bornHost")));
        message.setStoreTimestamp(json.getLongValue("storeTimestamp"));
        message.setStoreHost(address(json.getString("storeHost")));
        message.setReconsumeTimes(json.getIntValue("reconsumeTimes"));
        message.setPreparedTransactionOffset(json.getLongValue("preparedTransactionOffset"));
        message.setBodyCRC(json.getIntValue("bodyCRC"));
        message.setBody(Oracle.bytes(json, "body"));
        MessageAccessor.setProperties(message, Oracle.strings(json.getJSONObject("properties")));
        boolean isCompressed = (message.getSysFlag() & MessageSysFlag.COMPRESSED_FLAG) != 0;
        return MessageDecoder.encode(message, isCompressed);
    }

    /** Messages of a batch to send. */
    static List<Message> messages(JSONArray all) {
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < all.size(); i++) {
            JSONObject json = all.getJSONObject(i);
            Message message = new Message();
            message.setTopic(json.getString("topic"));
            message.setFlag(json.getIntValue("flag"));
            message.setBody(Oracle.bytes(json, "body"));
            MessageAccessor.setProperties(message, Oracle.strings(json.getJSONObject("properties")));
            messages.add(message);
        }
        return messages;
    }

    static JSONArray writeAll(List<? extends Message> messages) {
        JSONArray all = new JSONArray();
        for (Message message : messages) {
            all.add(write(message));
        }
        return all;
    }

    private static JSONObject write(Message message) {
        JSONObject json = new JSONObject(true);
        json.put("topic", message.getTopic());
        json.put("flag", message.getFlag());
        json.put("body", message.getBody() == null ? null : Oracle.base64(message.getBody()));
        json.put("properties", message.getProperties() == null ? null : new TreeMap<>(message.getProperties()));
        json.put("transactionId", message.getTransactionId());
        if (message instanceof MessageExt) {
            addStored((MessageExt) message, json);
        }
        return json;
    }

    private static void addStored(MessageExt message, JSONObject json) {
        json.put("msgId", message.getMsgId());
        json.put("offsetMsgId", message instanceof MessageClientExt ? ((MessageClientExt) message).getOffsetMsgId() : null);
        json.put("queueId", message.getQueueId());
        json.put("storeSize", message.getStoreSize());
        json.put("queueOffset", message.getQueueOffset());
        json.put("commitLogOffset", message.getCommitLogOffset());
        json.put("sysFlag", message.getSysFlag());
        json.put("bodyCRC", message.getBodyCRC());
        json.put("bornTimestamp", message.getBornTimestamp());
        json.put("bornHost", text(message.getBornHost()));
        json.put("storeTimestamp", message.getStoreTimestamp());
        json.put("storeHost", text(message.getStoreHost()));
        json.put("reconsumeTimes", message.getReconsumeTimes());
        json.put("preparedTransactionOffset", message.getPreparedTransactionOffset());
    }

    private static String text(SocketAddress address) {
        InetSocketAddress at = (InetSocketAddress) address;
        return at == null ? null : at.getAddress().getHostAddress() + ":" + at.getPort();
    }

    private static InetSocketAddress address(String text) throws Exception {
        int colon = text.lastIndexOf(':');
        return new InetSocketAddress(InetAddress.getByName(text.substring(0, colon)), Integer.parseInt(text.substring(colon + 1)));
    }
}
