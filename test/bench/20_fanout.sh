# Fan-out: reading many rows and one row through the router, against one plain
# database and a direct connection to the shard.
psql -Xq <<'END' >/dev/null
SELECT shardlet.create_map('orders', shards => '{s1,s2,s3,s4}');
SELECT * FROM shardlet.execute('orders', 'CREATE TABLE orders (customer_id bigint, order_id bigint, created timestamptz,
	status text, total numeric(12,2), PRIMARY KEY (customer_id, order_id))');
SELECT * FROM shardlet.execute('orders', 'CREATE INDEX ON orders (created)');
CREATE DATABASE plain;
END
make_orders="SELECT c, o, timestamptz '2026-01-01' + (c * 7919 + o * 104729) % 31536000 * interval '1 second',
	(ARRAY['new', 'paid', 'sent', 'done', 'void'])[1 + (c + o) % 5], (c * 31 + o * 17) % 100000 / 100.0
	FROM generate_series(1, 100000) c, generate_series(1, 10) o"
psql -Xq plain <<END >/dev/null
CREATE TABLE orders (customer_id bigint, order_id bigint, created timestamptz, status text, total numeric(12,2), PRIMARY KEY (customer_id, order_id));
CREATE INDEX ON orders (created);
INSERT INTO orders $make_orders;
VACUUM ANALYZE orders;
END
# Each shard gets the rows of its own keys, of which the router makes a list.
for shard in s1 s2 s3 s4; do
	psql -XAtqc "COPY (SELECT c FROM generate_series(1, 100000) c WHERE shardlet.route('orders', c) = '$shard') TO STDOUT" |
		psql -Xq "app_$shard" -c "CREATE TEMP TABLE mine (c bigint)" -c "COPY mine FROM STDIN" \
			-c "INSERT INTO orders SELECT * FROM ($make_orders) r(c) WHERE c IN (SELECT c FROM mine)" -c "VACUUM ANALYZE orders" >/dev/null
done

# seconds command...: wall clock of a whole psql, rows thrown away.
seconds() {
	local start=$EPOCHREALTIME
	"$@" >/dev/null
	awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }'
}
columns='t(customer_id bigint, order_id bigint, created timestamptz, status text, total numeric)'
figure "read 1M rows through query() / plain psql" "$(for _ in $(seq "$rounds"); do
	echo "$(seconds psql -XAtqc "SELECT * FROM shardlet.query('orders', 'SELECT * FROM orders') AS $columns") $(seconds psql -XAtq plain -c 'SELECT * FROM orders')"
done | awk '{ print $1 / $2 }' | median | awk '{ printf "%.2f\n", $1 }')" "1.8"
figure "latest 20 of all shards, ms" "$(for _ in $(seq "$rounds"); do
	psql -XAtq -c '\timing on' -c "SELECT count(*) FROM shardlet.query('orders', 'SELECT * FROM orders ORDER BY created DESC LIMIT 20') AS $columns" \
		-c "SELECT count(*) FROM shardlet.query('orders', 'SELECT * FROM orders ORDER BY created DESC LIMIT 20') AS $columns" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | tail -n 1
done | median)"

# A 10M-row result must not make the backend grow: kB before and after.
figure "growth of the backend by a result of 10M rows, MB" "$(psql -XAtq <<END | awk 'NR == 1 { a = $1 } { b = $1 } END { printf "%.1f\n", (b - a) / 1024 }'
SELECT 1 FROM shardlet.query('orders', 'SELECT 1') AS q(a int) LIMIT 0;
SELECT pg_backend_pid() AS pid \gset
\setenv PID :pid
\! awk '/VmRSS/ { print \$2 }' /proc/\$PID/status
SELECT count(*) + sum(length(b)) FROM shardlet.query('orders', 'SELECT g, md5(g::text) FROM (SELECT generate_series(1, 2500000) AS g) x') AS q(a int, b text) \g /dev/null
\! awk '/VmRSS/ { print \$2 }' /proc/\$PID/status
END
)" "32"

cat >key.pgbench <<'END'
\set c random(1, 16384)
\set o random(1, 10)
SELECT * FROM shardlet.query_key('orders', 'SELECT customer_id, order_id, created, status, total FROM orders WHERE customer_id = $1 AND order_id = $2', ARRAY[:c, :o]::text[], (:c)::bigint) AS t(customer_id bigint, order_id bigint, created timestamptz, status text, total numeric);
END
cat >direct.pgbench <<'END'
\set c random(1, 16384)
\set o random(1, 10)
SELECT customer_id, order_id, created, status, total FROM orders WHERE customer_id = :c AND order_id = :o;
END
latency() {
	pgbench -n -M prepared -c 1 -T 2 -f "$1" "$2" | sed -n 's/^latency average = \([0-9.]*\) ms.*/\1/p'
}
figure "query_key() of one row / direct connection, 1 client" "$(for _ in $(seq "$rounds"); do
	echo "$(latency key.pgbench app) $(latency direct.pgbench app_s1)"
done | awk '{ print $1 / $2 }' | median | awk '{ printf "%.2f\n", $1 }')" "2.2"
