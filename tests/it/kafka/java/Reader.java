// A consumer on the Java client: prints each committed record of a topic, and where Java's own producer would have
// placed its key. Run by the tests: java -cp "JARS/*" Reader.java SERVERS TOPIC
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public class Reader {
    public static void main(String[] arguments) {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", arguments[0]);
        config.put("isolation.level", "read_committed");
        config.put("key.deserializer", ByteArrayDeserializer.class);
        config.put("value.deserializer", ByteArrayDeserializer.class);
        try (Consumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
            List<TopicPartition> all = new ArrayList<>();
            consumer.partitionsFor(arguments[1]).forEach(one -> all.add(new TopicPartition(one.topic(), one.partition())));
            consumer.assign(all);
            consumer.seekToBeginning(all);
            Map<TopicPartition, Long> ends = consumer.endOffsets(all);
            while (all.stream().anyMatch(one -> consumer.position(one) < ends.get(one))) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    int placed = record.key() == null ? -1 : BuiltInPartitioner.partitionForKey(record.key(), all.size());
                    StringBuilder headers = new StringBuilder();
                    for (Header header : record.headers()) {
                        headers.append(header.key()).append('=').append(text(header.value())).append(';');
                    }
                    System.out.println(record.partition() + "\t" + placed + "\t" + text(record.key()) + "\t"
                        + text(record.value()) + "\t" + headers);
                }
            }
        }
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "NULL" : new String(bytes, StandardCharsets.UTF_8);
    }
}
