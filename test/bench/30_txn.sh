# Transactions: what a second shard costs, and what snapshots that agree cost.
# Needs the tables of 20_fanout.sh.
psql -Xq <<'END' >/dev/null
SELECT shardlet.create_map('accounts', 'list');
SELECT shardlet.assign_keys('accounts', 's' || s, (SELECT array_agg(g::bigint) FROM generate_series(1, 4000) g WHERE 1 + g % 4 = s)) FROM generate_series(1, 4) s;
SELECT * FROM shardlet.execute('accounts', 'CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint)');
SELECT * FROM shardlet.execute('accounts', 'INSERT INTO accounts SELECT g, 100 FROM generate_series(1, 4000) g WHERE ''app_s'' || 1 + g % 4 = current_database()');
END

# transfer distance: between an account and another one so far from it; 4 is on
# the same shard, 1 on the next one.
transfer() {
	local update="SELECT * FROM shardlet.query_key('accounts', 'UPDATE accounts SET balance = balance + \$2 WHERE id = \$1 RETURNING balance'"
	cat <<END
\\set a random(1, 3990)
BEGIN;
$update, ARRAY[:a, -1]::text[], (:a)::bigint) AS q(balance bigint);
$update, ARRAY[:a + $1, 1]::text[], (:a + $1)::bigint) AS q(balance bigint);
COMMIT;
END
}
transfer 4 >one_shard.pgbench
transfer 1 >two_shards.pgbench
cat >direct_two.pgbench <<'END'
\set a random(1, 990)
BEGIN;
UPDATE accounts SET balance = balance - 1 WHERE id = :a * 4 RETURNING balance;
UPDATE accounts SET balance = balance + 1 WHERE id = :a * 4 + 4 RETURNING balance;
COMMIT;
END
for clients in 1 8; do
	tps() {
		pgbench -n -M prepared -c $clients -T 2 -f "$1" "$2" | sed -n 's/^tps = \([0-9.]*\) .*/\1/p'
	}
	results=$(for _ in $(seq "$rounds"); do
		echo "$(tps one_shard.pgbench app) $(tps two_shards.pgbench app) $(tps direct_two.pgbench app_s1)"
	done)
	figure "transaction on two shards / on one, $clients clients" "$(awk '{ print $1 / $2 }' <<<"$results" | median | awk '{ printf "%.2f\n", $1 }')" "2.2"
	figure "transaction on one shard / direct connection, $clients clients" "$(awk '{ print $3 / $1 }' <<<"$results" | median | awk '{ printf "%.2f\n", $1 }')"
done

# consistent name sql seconds limit clients: what consistent_reads costs, in per cent.
consistent() {
	local clients=${5-1}
	echo "$2;" >read.pgbench
	latency() {
		PGOPTIONS="-c shardlet.consistent_reads=$1" pgbench -n -M prepared -c "$clients" -T "$2" -f read.pgbench app | sed -n 's/^latency average = \([0-9.]*\) ms.*/\1/p'
	}
	figure "$1 with consistent reads, per cent more" "$(for _ in $(seq "$rounds"); do
		echo "$(latency on "$3") $(latency off "$3")"
	done | awk '{ print 100 * ($1 / $2 - 1) }' | median | awk '{ printf "%.0f\n", $1 }')" "$4"
}
consistent 'aggregate over all shards' "SELECT status, sum(c), sum(t) FROM shardlet.query('orders', 'SELECT status, count(*), sum(total) FROM orders GROUP BY status', per_shard => true) AS q(status text, c bigint, t numeric) GROUP BY status ORDER BY status" 3 3
latest="SELECT * FROM shardlet.query('orders', 'SELECT customer_id, order_id, created, status, total FROM orders ORDER BY created DESC LIMIT 20') AS q(customer_id bigint, order_id bigint, created timestamptz, status text, total numeric)"
consistent 'latest 20 of all shards' "$latest" 2 15
consistent 'latest 20 of all shards, 8 clients,' "$latest" 2 30 8

# Readers and multi-shard writers beside each other: what each side keeps of its rate
# alone, and the longest read.  They share two processors, so half is all that there is.
psql -Xq <<'END' >/dev/null
SELECT shardlet.create_map('accounts', shards => '{s1,s2,s3,s4}');
CREATE TABLE accounts (id int PRIMARY KEY, balance bigint);
INSERT INTO accounts SELECT g, 1000 FROM generate_series(1, 10000) g;
SELECT shardlet.distribute('accounts', 'accounts', 'id');
END
echo 'SELECT sum(balance) FROM accounts;' >sum.pgbench
printf '%s\n' '\set a random(1, 10000)' '\set b random(1, 10000)' 'BEGIN;' 'UPDATE accounts SET balance = balance - 1 WHERE id = :a;' \
	'UPDATE accounts SET balance = balance + 1 WHERE id = :b;' 'COMMIT;' >transfer.pgbench
# side script log: rate of 8 clients in 10 seconds; the log has the time of each transaction.
side() {
	pgbench -n -c 8 -j 2 -T 10 -l --log-prefix="$2" -f "$1" --max-tries=100 app 2>/dev/null | sed -n 's/^tps = \([0-9.]*\) .*/\1/p'
}
reads=$(side sum.pgbench read_alone)
writes=$(side transfer.pgbench write_alone)
side sum.pgbench read_beside >read_rate &
side transfer.pgbench write_beside >write_rate
wait $!
figure '8 readers beside 8 writers / readers alone' "$(awk -v a="$reads" '{ printf "%.2f\n", $1 / a }' read_rate)" 0.5
figure '8 writers beside 8 readers / writers alone' "$(awk -v a="$writes" '{ printf "%.2f\n", $1 / a }' write_rate)" 0.5
figure 'longest of these reads, ms' "$(cat read_beside.* | awk '$3 > m { m = $3 } END { printf "%.0f\n", m / 1000 }')" 1000
