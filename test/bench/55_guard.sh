# The guard: what it costs an application that writes to a shard directly.  The same
# table twice on one shard, with a key and an index, once with the trigger and once
# without.  Noise is larger than the cost: instructions, counted with callgrind over
# COPY of 20,000 rows in a single-user backend, were 1.09 times as many.
columns='(customer_id bigint, order_id bigint, created timestamptz, status text, total numeric(12,2), PRIMARY KEY (customer_id, order_id))'
psql -Xq <<END >/dev/null
SELECT shardlet.create_map('guarded', shards => '{s1}');
CREATE TABLE guarded $columns;
CREATE INDEX ON guarded (created);
SELECT shardlet.distribute('guarded', 'guarded', 'customer_id');
END
psql -Xqd app_s1 <<END
CREATE TABLE unguarded (LIKE guarded INCLUDING ALL);
COPY (SELECT c, o, timestamptz '2026-01-01' + (c * 7919 + o * 104729) % 31536000 * interval '1 second',
	(ARRAY['new', 'paid', 'sent', 'done', 'void'])[1 + (c + o) % 5], (c * 31 + o * 17) % 100000 / 100.0
	FROM generate_series(1, 50000) c, generate_series(1, 10) o) TO '$PWD/guarded.csv' (FORMAT csv);
END

# copy_ms table: milliseconds of COPY into it, empty before.
copy_ms() {
	psql -XAtqd app_s1 -c '\timing on' -c "TRUNCATE $1" -c "COPY $1 FROM '$PWD/guarded.csv' (FORMAT csv)" |
		sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | tail -n 1
}
figure "COPY of 500k rows into a shard, with the guard / without" "$(for _ in $(seq "$rounds"); do
	echo "$(copy_ms guarded) $(copy_ms unguarded)"
done | awk '{ print $1 / $2 }' | median | awk '{ printf "%.2f\n", $1 }')" "at most 1.1"
psql -XAtqd app_s1 -c "INSERT INTO guarded VALUES (1, -1)" -c "INSERT INTO unguarded VALUES (1, -1)"
for table in guarded unguarded; do
	echo "UPDATE $table SET total = total + 1 WHERE customer_id = 1 AND order_id = -1;" >"$table.pgbench"
done
tps() {
	pgbench -n -f "$1.pgbench" -T 2 app_s1 2>/dev/null | sed -n 's/^tps = \([0-9.]*\).*/\1/p'
}
figure "UPDATE of a row, tps with the guard / without" "$(for _ in $(seq "$rounds"); do
	echo "$(tps guarded) $(tps unguarded)"
done | awk '{ print $1 / $2 }' | median | awk '{ printf "%.2f\n", $1 }')"
psql -Xq -c 'DROP TABLE guarded' -c "SELECT shardlet.drop_map('guarded')" >/dev/null
psql -Xqd app_s1 -c 'DROP TABLE unguarded'
