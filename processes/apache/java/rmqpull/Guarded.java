package rmqpull;

import java.io.IOException;
import java.util.Arrays;

/** Runs the main method of a class, and ends when standard input ends: the process that has started it is gone. */
public final class Guarded {
    public static void main(String[] arguments) throws Exception {
        Thread watch = new Thread(Guarded::endWithInput, "end-with-input");
        watch.setDaemon(true);
        watch.start();
        Class.forName(arguments[0]).getMethod("main", String[].class)
            .invoke(null, (Object) Arrays.copyOfRange(arguments, 1, arguments.length));
    }

    private static void endWithInput() {
        try {
            while (System.in.read() >= 0) { }
        } catch (IOException closed) {
            // The same as the end.
        }
        Runtime.getRuntime().halt(0);
    }
}
