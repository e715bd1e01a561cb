// Gives users their rights: lines on stdin, each USER OPERATION TYPE NAME (NAME* is a prefix).
// Run by the tests: java -cp "JARS/*" Rights.java SERVERS
import java.util.*;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.resource.*;

public class Rights {
    public static void main(String[] arguments) throws Exception {
        List<AclBinding> all = new ArrayList<>();
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().trim().split(" +");
            boolean prefix = words[3].endsWith("*");
            String name = prefix ? words[3].substring(0, words[3].length() - 1) : words[3];
            PatternType pattern = prefix ? PatternType.PREFIXED : PatternType.LITERAL;
            all.add(new AclBinding(
                new ResourcePattern(ResourceType.fromString(words[2]), name, pattern),
                new AccessControlEntry("User:" + words[0], "*", AclOperation.fromString(words[1].replaceAll("([a-z])([A-Z])", "$1_$2")), AclPermissionType.ALLOW)));
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            admin.createAcls(all).all().get();
        }
    }
}
