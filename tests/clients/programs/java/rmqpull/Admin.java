package rmqpull;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs commands of `mqadmin` in one process, which saves a second for each.
 *
 * <p>A line of input is a JSON array with the arguments of one command; a line of output is a JSON array with all that
 * the command has printed, on both streams.
 */
public final class Admin {
    public static void main(String[] arguments) throws Exception {
        PrintStream output = System.out;
        PrintStream errors = System.err;
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream capture = new PrintStream(printed, true, "UTF-8");
            System.setOut(capture);
            System.setErr(capture);
            try {
                MQAdminStartup.main0(JSON.parseObject(line, String[].class), null);
            } catch (Throwable error) {
                error.printStackTrace(capture);
            } finally {
                System.setOut(output);
                System.setErr(errors);
            }
            JSONArray response = new JSONArray();
            response.add(printed.toString("UTF-8"));
            output.println(response.toJSONString());
            output.flush();
        }
        System.exit(0);
    }
}
