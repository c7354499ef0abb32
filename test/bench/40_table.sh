# Tables on shards: what goes in, comes out and changes through plain SQL, against
# a plain table with the same rows, keys and indexes.  Each part makes what it needs.
columns='(customer_id bigint, order_id bigint, created timestamptz, status text, total numeric(12,2), PRIMARY KEY (customer_id, order_id))'
make_purchases="SELECT c, o, timestamptz '2026-01-01' + (c * 7919 + o * 104729) % 31536000 * interval '1 second',
	(ARRAY['new', 'paid', 'sent', 'done', 'void'])[1 + (c + o) % 5], (c * 31 + o * 17) % 100000 / 100.0
	FROM generate_series(1, 100000) c, generate_series(1, 10) o"
psql -Xqd postgres -c 'CREATE DATABASE plain' 2>/dev/null || true
psql -Xq -c "SELECT shardlet.create_map('purchases', shards => '{s1,s2,s3,s4}')" >/dev/null
psql -Xq plain -c "COPY ($make_purchases) TO '$PWD/purchases.csv' (FORMAT csv)" -c "COPY ($make_purchases LIMIT 500000) TO '$PWD/half.csv' (FORMAT csv)"

# in_ms database sql...: milliseconds of the last statement of one session.
in_ms() {
	local database=$1 arguments=(-c '\timing on') sql
	shift
	for sql; do
		arguments+=(-c "$sql")
	done
	psql -XAtq -d "$database" "${arguments[@]}" | sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | tail -n 1
}

# median_of digits: of the ratios of the two columns of its input.
median_of() {
	awk '{ print $1 / $2 }' | median | awk -v digits="$1" '{ printf "%.*f\n", digits, $1 }'
}

table() {
	psql -Xqd "$1" -v ON_ERROR_STOP=1 -c 'SET client_min_messages = warning' -c "DROP TABLE IF EXISTS $2" -c "CREATE TABLE $2 $columns" -c "CREATE INDEX ON $2 (created)"
}

# Rows that are there already: how fast they go to the shards, beside the COPY that
# had brought them.
figure "COPY of 1M rows / distribute() of them" "$(for _ in $(seq $((rounds < 3 ? rounds : 3))); do
	table app purchases
	copied=$(in_ms app "COPY purchases FROM '$PWD/purchases.csv' (FORMAT csv)")
	echo "$copied $(in_ms app "SELECT shardlet.distribute('purchases', 'purchases', 'customer_id')")"
done | median_of 2)" "at least 0.33"
table plain purchases
psql -Xqd plain -c "COPY purchases FROM '$PWD/purchases.csv' (FORMAT csv)" -c 'VACUUM ANALYZE purchases'
psql -Xqc 'ANALYZE purchases'
for shard in s1 s2 s3 s4; do
	psql -Xqd "app_$shard" -c 'VACUUM ANALYZE purchases'
done

for database in app plain; do
	table "$database" half
done
psql -Xq -c "SELECT shardlet.distribute('half', 'purchases', 'customer_id')" >/dev/null
figure "COPY of 500k rows, speed against plain" "$(for _ in $(seq "$rounds"); do
	echo "$(in_ms plain 'TRUNCATE half' "COPY half FROM '$PWD/half.csv' (FORMAT csv)") $(in_ms app 'TRUNCATE half' "COPY half FROM '$PWD/half.csv' (FORMAT csv)")"
done | median_of 2)" "at least 1.0"

# As a client sees it, rows thrown away.
rows_ms() {
	local start=$EPOCHREALTIME
	psql -XAtqd "$1" -c 'SELECT * FROM purchases' >/dev/null
	awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }'
}
figure "SELECT * of 1M rows / plain" "$(for _ in $(seq "$rounds"); do
	echo "$(rows_ms app) $(rows_ms plain)"
done | median_of 2)" "1.9"

# 10,000 rows on all shards, committed in two phases; another slice in each round.
figure "UPDATE of a 1 % slice on all shards / plain" "$(for round in $(seq "$rounds"); do
	update="UPDATE purchases SET status = 'void' WHERE created >= timestamptz '2026-01-01' + $round * interval '87.6 hours' AND created < timestamptz '2026-01-01' + ($round + 1) * interval '87.6 hours'"
	echo "$(in_ms app 'SELECT count(*) FROM purchases WHERE customer_id < 3' "$update") $(in_ms plain 'SELECT count(*) FROM purchases WHERE customer_id < 3' "$update")"
done | median_of 2)" "1.2"
