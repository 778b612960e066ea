package rmqpull;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.parser.Feature;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.AclUtils;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.compression.CompressorFactory;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.LanguageCode;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.remoting.protocol.SerializeType;

/**
 * Calls Apache's own classes. Reads one request per line, as JSON, and prints one response per line:
 * {"result": ...} or {"error": "..."}. Bytes are base64.
 */
public final class Oracle {
    private static final String[] PACKAGES = {
        "org.apache.rocketmq.common.protocol.header.", "org.apache.rocketmq.common.protocol.header.namesrv.",
        "org.apache.rocketmq.remoting.protocol.header.", "org.apache.rocketmq.remoting.protocol.header.namesrv.",
        "org.apache.rocketmq.common.protocol.route.", "org.apache.rocketmq.remoting.protocol.route.",
        "org.apache.rocketmq.common.protocol.body.", "org.apache.rocketmq.remoting.protocol.body.",
        "org.apache.rocketmq.common.protocol.heartbeat.", "org.apache.rocketmq.remoting.protocol.heartbeat.",
        "org.apache.rocketmq.common.subscription.", "org.apache.rocketmq.remoting.protocol.subscription.",
        "org.apache.rocketmq.common.", "org.apache.rocketmq.remoting.protocol.",
        "org.apache.rocketmq.common.protocol.", "org.apache.rocketmq.common.message.",
    };

    interface Call {
        Object apply(JSONObject request) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream output = System.out;
        System.setOut(System.err); // what Apache's classes print is no response
        Map<String, Call> calls = calls();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JSONObject response = new JSONObject(true);
            try {
                JSONObject request = (JSONObject) JSON.parse(line, Feature.DisableSpecialKeyDetect, Feature.OrderedField);
                response.put("result", calls.get(request.getString("call")).apply(request));
            } catch (InvocationTargetException error) {
                response.put("error", String.valueOf(error.getCause()));
            } catch (Throwable error) {
                response.put("error", error.toString());
            }
            output.println(text(response));
            output.flush();
        }
    }

    private static Map<String, Call> calls() {
        Map<String, Call> calls = new HashMap<>();
        calls.put("decodeCommand", request -> write(RemotingCommand.decode(frame(request))));
        calls.put("encodeCommand", request -> base64(command(request.getJSONObject("command")).encode()));
        calls.put("encodeHeader", Oracle::encodeHeader);
        calls.put("decodeHeader", Oracle::decodeHeader);
        calls.put("sign", Oracle::sign);
        calls.put("signature", request -> AclUtils.calSignature(bytes(request, "data"), request.getString("secretKey")));
        calls.put("decodeBody", Oracle::decodeBody);
        calls.put("encodeBody", Oracle::encodeBody);
        calls.put("parseJson", request -> JSON.parse(request.getString("text")));
        calls.put("printJson", request -> JSON.toJSONString(request.get("value")));
        calls.put("constants", request -> constants(find(request.getString("type"))));
        calls.put("decodeMessages", request -> Records.decode(bytes(request, "data"), request.getBooleanValue("unwrap")));
        calls.put("encodeMessage", request -> base64(Records.encode(request.getJSONObject("message"))));
        calls.put("encodeBatch", request -> base64(MessageDecoder.encodeMessages(Records.messages(request.getJSONArray("messages")))));
        calls.put("decodeBatch", request -> Records.writeAll(MessageDecoder.decodeMessages(ByteBuffer.wrap(bytes(request, "data")))));
        calls.put("decodeProperties", request -> MessageDecoder.string2messageProperties(request.getString("text")));
        calls.put("encodeProperties", request -> MessageDecoder.messageProperties2String(strings(request.getJSONObject("properties"))));
        calls.put("createMessageId", request -> MessageDecoder.createMessageId(
            new InetSocketAddress(request.getString("host"), request.getIntValue("port")), request.getLongValue("offset")));
        calls.put("decodeMessageId", Oracle::decodeMessageId);
        calls.put("createUniqueId", request -> MessageClientIDSetter.createUniqID());
        calls.put("timeOfUniqueId", request -> MessageClientIDSetter.getNearlyTimeFromID(request.getString("id")).getTime());
        calls.put("hostOfUniqueId", request -> MessageClientIDSetter.getIPStrFromID(request.getString("id")));
        calls.put("compress", request -> base64(CompressorFactory.getCompressor(
            CompressionType.of(request.getString("type"))).compress(bytes(request, "data"), request.getIntValue("level"))));
        calls.put("decompress", request -> base64(CompressorFactory.getCompressor(
            CompressionType.of(request.getString("type"))).decompress(bytes(request, "data"))));
        calls.put("crc32", request -> UtilAll.crc32(bytes(request, "data")));
        calls.put("hashCode", request -> request.getString("text").hashCode());
        calls.put("extraInfo", request -> extraInfo(request.getString("method"), request.getJSONArray("arguments")));
        calls.put("consistentHash", request -> Class.forName("com.google.common.hash.Hashing") // not in 4.x
            .getMethod("consistentHash", long.class, int.class)
            .invoke(null, (long) request.getIntValue("hash"), request.getIntValue("buckets")));
        return calls;
    }

    // ---- commands and their headers

    private static RemotingCommand command(JSONObject json) {
        RemotingCommand command = RemotingCommand.createRequestCommand(json.getIntValue("code"), null);
        command.setLanguage(LanguageCode.valueOf(json.getString("language")));
        command.setVersion(json.getIntValue("version"));
        command.setOpaque(json.getIntValue("opaque"));
        command.setFlag(json.getIntValue("flag"));
        command.setRemark(json.getString("remark"));
        command.setSerializeTypeCurrentRPC(SerializeType.valueOf(json.getString("serializeType")));
        if (json.getJSONObject("extFields") != null) {
            command.setExtFields(strings(json.getJSONObject("extFields")));
        }
        if (json.getString("body") != null) {
            command.setBody(bytes(json, "body"));
        }
        return command;
    }

    private static JSONObject write(RemotingCommand command) {
        JSONObject json = new JSONObject(true);
        json.put("code", command.getCode());
        json.put("language", command.getLanguage() == null ? null : command.getLanguage().name());
        json.put("version", command.getVersion());
        json.put("opaque", command.getOpaque());
        json.put("flag", command.getFlag());
        json.put("remark", command.getRemark());
        json.put("serializeType", command.getSerializeTypeCurrentRPC().name());
        json.put("extFields", command.getExtFields());
        json.put("body", command.getBody() == null ? null : base64(command.getBody()));
        return json;
    }

    private static ByteBuffer frame(JSONObject request) {
        byte[] frame = bytes(request, "frame");
        return ByteBuffer.wrap(frame, 4, frame.length - 4).slice(); // Netty has removed the length
    }

    private static Object encodeHeader(JSONObject request) throws Exception {
        Class<?> type = find(request.getString("type"));
        CommandCustomHeader header = (CommandCustomHeader) type.getDeclaredConstructor().newInstance();
        JSONObject values = request.getJSONObject("values");
        for (Class<?> part = type; part != Object.class; part = part.getSuperclass()) {
            for (Field field : part.getDeclaredFields()) {
                if (values.containsKey(field.getName()) && !Modifier.isStatic(field.getModifiers())) {
                    field.setAccessible(true);
                    field.set(header, values.getObject(field.getName(), field.getType()));
                }
            }
        }
        RemotingCommand command = RemotingCommand.createRequestCommand(0, header);
        command.makeCustomHeaderToNet();
        return command.getExtFields();
    }

    @SuppressWarnings("unchecked")
    private static Object decodeHeader(JSONObject request) throws Exception {
        RemotingCommand command = RemotingCommand.createRequestCommand(0, null);
        command.setExtFields(strings(request.getJSONObject("extFields")));
        Class<? extends CommandCustomHeader> type = (Class<? extends CommandCustomHeader>) find(request.getString("type"));
        CommandCustomHeader header = command.decodeCommandCustomHeader(type);
        JSONObject values = new JSONObject(true);
        for (Class<?> part = type; part != Object.class; part = part.getSuperclass()) {
            for (Field field : part.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    field.setAccessible(true);
                    values.put(field.getName(), field.get(header));
                }
            }
        }
        return values;
    }

    private static Object sign(JSONObject request) {
        RemotingCommand command = command(request.getJSONObject("command"));
        SessionCredentials keys = new SessionCredentials(
            request.getString("accessKey"), request.getString("secretKey"), request.getString("securityToken"));
        new AclClientRPCHook(keys).doBeforeRequest("", command);
        return new TreeMap<>(command.getExtFields());
    }

    // ---- bodies that are JSON, such as TopicRouteData

    private static Object decodeBody(JSONObject request) throws Exception {
        Object body = RemotingSerializable.decode(bytes(request, "data"), find(request.getString("type")));
        return JSON.parse(new String(standard(body), StandardCharsets.UTF_8));
    }

    private static Object encodeBody(JSONObject request) throws Exception {
        byte[] json = text(request.get("value")).getBytes(StandardCharsets.UTF_8);
        Object body = RemotingSerializable.decode(json, find(request.getString("type")));
        return base64(request.getBooleanValue("standard") ? standard(body) : RemotingSerializable.encode(body));
    }

    /** As a name server writes routes for clients that ask for standard JSON. */
    private static byte[] standard(Object body) {
        return JSON.toJSONBytes(body, SerializerFeature.BrowserCompatible, SerializerFeature.QuoteFieldNames,
            SerializerFeature.SkipTransientField, SerializerFeature.MapSortField);
    }

    private static Object constants(Class<?> type) throws Exception {
        JSONObject values = new JSONObject(true);
        for (Field field : type.getFields()) {
            if (Modifier.isStatic(field.getModifiers())) {
                Object value = field.get(null);
                values.put(field.getName(), value instanceof Enum ? ((Enum<?>) value).ordinal() : value);
            }
        }
        return values;
    }

    /** Calls a method of ExtraInfoUtil, which 4.x does not have. One that appends to a builder starts with a text. */
    private static Object extraInfo(String name, JSONArray arguments) throws Exception {
        for (Method method : find("ExtraInfoUtil").getMethods()) {
            Class<?>[] types = method.getParameterTypes();
            if (method.getName().equals(name) && types.length == arguments.size()) {
                Object[] values = new Object[types.length];
                for (int i = 0; i < types.length; i++) {
                    values[i] = arguments.getObject(i, types[i] == StringBuilder.class ? String.class : types[i]);
                    if (types[i] == StringBuilder.class) {
                        values[i] = new StringBuilder((String) values[i]);
                    } else if (types[i] == List.class) {
                        values[i] = arguments.getJSONArray(i).toJavaList(Long.class);
                    }
                }
                Object result = method.invoke(null, values);
                return types[0] == StringBuilder.class ? values[0].toString() : result;
            }
        }
        throw new NoSuchMethodException(name);
    }

    private static Object decodeMessageId(JSONObject request) throws Exception {
        MessageId id = MessageDecoder.decodeMessageId(request.getString("id"));
        InetSocketAddress address = (InetSocketAddress) id.getAddress();
        JSONObject json = new JSONObject(true);
        json.put("host", address.getAddress().getHostAddress());
        json.put("port", address.getPort());
        json.put("offset", id.getOffset());
        return json;
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String from : PACKAGES) {
            try {
                return Class.forName(from + name);
            } catch (ClassNotFoundException elsewhere) {
                continue;
            }
        }
        throw new ClassNotFoundException(name);
    }

    // ---- JSON

    static String text(Object json) {
        return JSON.toJSONString(json, SerializerFeature.BrowserCompatible, SerializerFeature.WriteMapNullValue,
            SerializerFeature.DisableCircularReferenceDetect, SerializerFeature.WriteNonStringKeyAsString);
    }

    static byte[] bytes(JSONObject json, String name) {
        return Base64.getDecoder().decode(json.getString(name));
    }

    static String base64(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }

    private static String base64(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return base64(bytes);
    }

    static HashMap<String, String> strings(JSONObject json) {
        HashMap<String, String> strings = new HashMap<>();
        json.forEach((key, value) -> strings.put(key, value == null ? null : value.toString()));
        return strings;
    }
}
