# Contention: 8 clients that change the same rows, or rows beside each other, on
# all shards, with one statement each.  A plain table stands beside.
psql -Xq <<'END' >/dev/null
CREATE TABLE hot (id int PRIMARY KEY, bal int);
INSERT INTO hot SELECT g, 0 FROM generate_series(1, 4000) g;
CREATE TABLE plain_hot (LIKE hot INCLUDING ALL);
INSERT INTO plain_hot SELECT * FROM hot;
SELECT shardlet.create_map('hot');
SELECT shardlet.distribute('hot', 'hot', 'id');
VACUUM ANALYZE hot, plain_hot;
END
for table in hot plain_hot; do
	echo "UPDATE $table SET bal = bal + 1 WHERE id <= 10;" >"update_$table.pgbench"
	printf '\\set a random(1, 8)\nINSERT INTO %s VALUES (:a, 1), (:a + 1, 1), (:a + 2, 1) ON CONFLICT (id) DO UPDATE SET bal = %s.bal + 1;\n' \
		$table $table >"upsert_$table.pgbench"
	printf '\\set a :client_id * 100\nUPDATE %s SET bal = bal + 1 WHERE id > :a AND id <= :a + 12;\n' $table >"disjoint_$table.pgbench"
done

# contended name script limit: rate of the plain table divided by that of the sharded.
contended() {
	rate() {
		pgbench -n -c 8 -j 2 -T 5 -f "$1" app | sed -n 's/^tps = \([0-9.]*\) .*/\1/p'
	}
	figure "$1, plain / sharded, 8 clients" "$(for _ in $(seq "$rounds"); do
		echo "$(rate "$2_plain_hot.pgbench") $(rate "$2_hot.pgbench")"
	done | awk '{ print $1 / $2 }' | median | awk '{ printf "%.2f\n", $1 }')" "${3:-}"
}
contended 'UPDATE of the same 10 rows' update 4
contended 'upsert of 3 neighbouring keys' upsert
contended 'UPDATE of other rows' disjoint
