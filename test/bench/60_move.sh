# Moves: 250k orders with 750k items and 25k customers go to another shard while
# eight clients update them, at 500 updates a second and as fast as they can.
# What counts is the longest write, what is left of the throughput, and the time.
#
# That is all that the shard has, and the other one has nothing: as when a shard goes
# to a new machine.  At last one half of it moves, and the other half stays.
psql -Xq <<'END' >/dev/null
SET client_min_messages = warning;
SELECT shardlet.create_map('shop', shards => '{s1}', shardlets => 1);
SELECT shardlet.alter_map('shop', add_shards => '{s2}');
CREATE TABLE shop_customers (customer_id bigint PRIMARY KEY, name text);
CREATE TABLE shop_orders (customer_id bigint, order_id bigint, status text, total numeric(12,2), PRIMARY KEY (customer_id, order_id));
CREATE TABLE shop_items (customer_id bigint, order_id bigint, line int, product int, price numeric(10,2), PRIMARY KEY (customer_id, order_id, line));
SELECT shardlet.distribute('shop_customers', 'shop', 'customer_id'), shardlet.distribute('shop_orders', 'shop', 'customer_id'),
	shardlet.distribute('shop_items', 'shop', 'customer_id');
CREATE TABLE shop_keys AS SELECT c AS customer_id FROM generate_series(1, 25000) c;
INSERT INTO shop_customers SELECT customer_id, 'customer ' || customer_id FROM shop_keys;
INSERT INTO shop_orders SELECT customer_id, o, 'new', (customer_id * 31 + o * 17) % 100000 / 100.0 FROM shop_keys, generate_series(1, 10) o;
INSERT INTO shop_items SELECT customer_id, o, l, (customer_id * 7 + l) % 10000, (o * 13 + l) % 5000 / 100.0 FROM shop_keys, generate_series(1, 10) o, generate_series(1, 3) l;
ALTER SYSTEM SET wal_retrieve_retry_interval = '100ms';
SELECT pg_reload_conf();
END
shopped=$(psql -XAtqc "SELECT shardlet FROM shardlet.shardlets WHERE map = 'shop' AND shard = 's1'")
last_key=$(psql -XAtqc 'SELECT max(customer_id) FROM shop_keys')
for shard in s1 s2; do
	psql -Xqd "app_$shard" -c 'VACUUM ANALYZE'
done
cat >shop_update.pgbench <<END
\set c random(1, $last_key)
\set o random(1, 10)
UPDATE shop_orders SET status = 'paid' WHERE customer_id = :c AND order_id = :o;
END
place=s1

# shop_move mode: to the other shard, and how long that took in seconds.
shop_move() {
	local start=$EPOCHREALTIME
	place=$([ "$place" = s1 ] && echo s2 || echo s1)
	psql -Xqc 'SET client_min_messages = warning' -c "CALL shardlet.move_shardlet($shopped, '$place', '$1')"
	awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f\n", b - a }'
}

# shop_round arguments of pgbench: "seconds longest_ms share" of one move under load.
shop_round() {
	rm -f shop_log.*
	pgbench -n -M prepared -c 8 -j 2 -T "$lasts" -f shop_update.pgbench -l --log-prefix=shop_log "$@" >/dev/null 2>&1 &
	local load=$! start end seconds
	sleep 4
	start=$EPOCHREALTIME
	shop_move online >shop_seconds
	end=$EPOCHREALTIME
	seconds=$(cat shop_seconds)
	wait "$load"
	# Columns: client, transaction, microseconds, script, seconds, microseconds of the end.
	cat shop_log.* | awk -v a="$start" -v b="$end" -v took="$seconds" '
		{ at = $5 + $6 / 1e6; if (at < a) { before++; if (!first || at < first) first = at }
		  else if (at <= b) { during++; if ($3 > longest) longest = $3; if (at > last) last = at } }
		END { printf "%s %.0f %.2f\n", took, longest / 1000, (during / (last - a)) / (before / (a - first)) }'
}

for load in "500 updates/s" "as fast as they can"; do
	# Longer than the move does.
	[ "$load" = "500 updates/s" ] && limit=(-R 500) lasts=20 || limit=() lasts=40
	for _ in $(seq $((rounds < 3 ? rounds : 3))); do
		shop_round "${limit[@]}"
	done >shop_rounds
	place=$(psql -XAtqc "SELECT shard FROM shardlet.shardlets WHERE shardlet = $shopped")
	figure "online move of 250k orders, s ($load)" "$(awk '{ print $1 }' shop_rounds | median)" "$([ "$load" = "500 updates/s" ] && echo "at most 3.5")"
	figure "longest write meanwhile, ms" "$(awk '{ print $2 }' shop_rounds | median)" "under 75"
	figure "throughput meanwhile / before" "$(awk '{ print $3 }' shop_rounds | median)" "at least 0.7"
done

# The same rows by hand: COPY from one database into another, all tables, one after the other.
make_plain() {
	psql -Xqd "$1" -c 'SET client_min_messages = warning' -c 'DROP TABLE IF EXISTS shop_customers, shop_orders, shop_items' \
		-c 'CREATE TABLE shop_customers (customer_id bigint PRIMARY KEY, name text)' \
		-c 'CREATE TABLE shop_orders (customer_id bigint, order_id bigint, status text, total numeric(12,2), PRIMARY KEY (customer_id, order_id))' \
		-c 'CREATE TABLE shop_items (customer_id bigint, order_id bigint, line int, product int, price numeric(10,2), PRIMARY KEY (customer_id, order_id, line))'
}

copy_tables() {
	local table
	for table in shop_customers shop_orders shop_items; do
		psql -Xqd "$1" -c "COPY $table TO STDOUT" | psql -Xqd "$2" -c "COPY $table FROM STDIN"
	done
}

plain_copy() {
	make_plain app_s4
	local start=$EPOCHREALTIME
	copy_tables app_s3 app_s4
	awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }'
}

# read_only_ratio part: of the rows that the COPY has.
read_only_ratio() {
	local copied
	for _ in $(seq $((rounds < 3 ? rounds : 3))); do
		copied=$(plain_copy)
		shop_move read_only >shop_seconds
		echo "$(cat shop_seconds) $copied"
	done | awk -v part="$1" '{ print $1 / ($2 * part) }' | median | awk '{ printf "%.2f\n", $1 }'
}
make_plain app_s3
copy_tables "app_$place" app_s3
figure "read_only move / plain COPY of the same rows" "$(read_only_ratio 1)" "at most 1.5"

# One half goes to and fro, and so the other one follows or precedes it.
place=$(psql -XAtqc "SELECT shard FROM shardlet.shardlets WHERE shardlet = $shopped")
shopped=$(psql -XAtqc "SELECT min(s) FROM shardlet.split_shardlet($shopped) s")
figure "the same of one half, while the other half stays" "$(read_only_ratio 0.5)"
psql -Xqc 'SET client_min_messages = warning' -c 'DROP TABLE shop_customers, shop_orders, shop_items, shop_keys'
