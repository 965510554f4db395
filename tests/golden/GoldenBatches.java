import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.function.Predicate;
import java.util.zip.CRC32;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.ControlRecordType;
import org.apache.kafka.common.record.EndTransactionMarker;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.MutableRecordBatch;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.TopicPartition;

/** Writes batches with Kafka's own encoder and log cleaner, and what its own decoder reads in them. */
public class GoldenBatches {
    static final long TIME = 1_700_000_000_000L;
    static Path out;

    public static void main(String[] args) throws Exception {
        out = Path.of(args[0]);
        for (CompressionType type : CompressionType.values()) {
            Compression codec = Compression.of(type).build();
            MemoryRecords plain = build((byte) 2, codec, TimestampType.CREATE_TIME);
            save("v2-" + type.name, plain);
            if (type != CompressionType.NONE) save("v2-" + type.name + "-large", large(codec));
            save("v2-" + type.name + "-append-time", build((byte) 2, codec, TimestampType.LOG_APPEND_TIME));
            save("v2-" + type.name + "-holes", clean(plain, r -> r.offset() % 3 != 1, 0));
            save("v2-" + type.name + "-horizon", clean(plain, r -> true, TIME + 3_600_000));
            if (type == CompressionType.ZSTD) continue;
            for (byte magic = 0; magic < 2; magic++) {
                MemoryRecords old = build(magic, codec, TimestampType.CREATE_TIME);
                save("v" + magic + "-" + type.name, old);
                save("v" + magic + "-" + type.name + "-holes", clean(old, r -> r.offset() % 3 != 1, 0));
            }
            save("v1-" + type.name + "-append-time", build((byte) 1, codec, TimestampType.LOG_APPEND_TIME));
        }
        save("v2-none-empty", clean(build((byte) 2, Compression.NONE, TimestampType.CREATE_TIME), r -> false, 0));
        for (ControlRecordType kind : new ControlRecordType[] {ControlRecordType.ABORT, ControlRecordType.COMMIT}) {
            MemoryRecords marker = MemoryRecords.withEndTransactionMarker(1012, TIME, 7, 4711, (short) 3,
                new EndTransactionMarker(kind, 9));
            save("v2-marker-" + kind.name().toLowerCase(), marker);
            if (kind == ControlRecordType.ABORT) save("v2-marker-empty", clean(marker, r -> false, 0));
        }
    }

    static MemoryRecords build(byte magic, Compression codec, TimestampType type) {
        MemoryRecordsBuilder builder = magic < 2
            ? MemoryRecords.builder(ByteBuffer.allocate(1 << 20), magic, codec, type, 1000, TIME + 99_000)
            : new MemoryRecordsBuilder(ByteBuffer.allocate(1 << 20), magic, codec, type, 1000, TIME + 99_000,
                4711, (short) 3, 40, true, false, 7, 1 << 20);
        Header[] many = {new RecordHeader("trace", new byte[] {1, 2}), new RecordHeader("trace", null),
            new RecordHeader("", new byte[0])};
        for (int i = 0; i < 12; i++) {
            byte[] key = i == 4 ? null : i == 5 ? new byte[0] : ("key-" + i).getBytes();
            byte[] value = i == 6 ? null : i == 7 ? new byte[0] : "value ".repeat(i).getBytes();
            long time = magic == 0 ? -1 : TIME + (i % 2 == 0 ? i * 1000 : -i);
            if (magic < 2) builder.append(time, key, value);
            else builder.append(time, key, value, i == 8 ? many : new Header[0]);
        }
        return builder.build();
    }

    /** Several blocks in every framing: three records of 100 KB that compress well. */
    static MemoryRecords large(Compression codec) {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 20), (byte) 2, codec,
            TimestampType.CREATE_TIME, 0, -1);
        for (int i = 0; i < 3; i++) builder.append(TIME, null, ("value" + i + " ").repeat(15_000).getBytes());
        return builder.build();
    }

    static MemoryRecords clean(MemoryRecords records, Predicate<Record> kept, long horizon) {
        ByteBuffer room = ByteBuffer.allocate(1 << 20);
        var filter = new MemoryRecords.RecordFilter(horizon, 0) {
            @Override protected BatchRetentionResult checkBatchRetention(RecordBatch batch) {
                var retention = batch.magic() < 2 ? BatchRetention.DELETE_EMPTY : BatchRetention.RETAIN_EMPTY;
                return new BatchRetentionResult(retention, false);
            }
            @Override protected boolean shouldRetainRecord(RecordBatch batch, Record record) {
                return kept.test(record);
            }
        };
        records.filterTo(new TopicPartition("golden", 0), filter, room, 1 << 20,
            BufferSupplier.NO_CACHING);
        room.flip();
        return MemoryRecords.readableRecords(room);
    }

    static void save(String name, MemoryRecords records) throws Exception {
        ByteBuffer bytes = records.buffer().duplicate();
        byte[] raw = new byte[bytes.remaining()];
        bytes.get(raw);
        Files.write(out.resolve(name + ".bin"), raw);
        StringBuilder text = new StringBuilder();
        for (MutableRecordBatch batch : records.batches())
            for (Record record : batch) {
                text.append(record.offset()).append(' ').append(record.timestamp()).append(' ')
                    .append(hex(record.key())).append(' ').append(hex(record.value()));
                for (Header header : record.headers()) {
                    byte[] value = header.value();
                    text.append(' ').append(HexFormat.of().formatHex(header.key().getBytes())).append('=')
                        .append(value == null ? "null" : HexFormat.of().formatHex(value));
                }
                text.append('\n');
            }
        Files.writeString(out.resolve(name + ".txt"), text.toString());
    }

    static String hex(ByteBuffer bytes) {
        if (bytes == null) return "null";
        byte[] raw = new byte[bytes.remaining()];
        bytes.duplicate().get(raw);
        if (raw.length > 1000) {
            CRC32 crc = new CRC32();
            crc.update(raw);
            return raw.length + ":" + Long.toHexString(crc.getValue());
        }
        return raw.length == 0 ? "-" : HexFormat.of().formatHex(raw);
    }
}
