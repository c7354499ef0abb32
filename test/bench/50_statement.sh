# Whole statements: a shop of customers, orders, items and products on four shards,
# against a direct connection to a shard, one plain database with the same rows,
# partitions of postgres_fdw, and PL/Proxy.
#
#	BENCH_ROWS          orders (1000000); ten of a customer, three items in each
#	BENCH_STATEMENTS    which ones, of: a b c d e f g h i j l1 l2 l3
#	BENCH_SECONDS       that each is run, in each round (3); one more before, for what is short
#	BENCH_AGAINST       which ones, of: direct plain fdw proxy
#
# shop is the router, shop_s1 ... its shards; shop_plain has all rows; peer_0 ... are
# the shards of shop_fdw and shop_proxy, which agree on a hash: PL/Proxy's partition
# p is the hash modulo 4, and PostgreSQL adds a constant with remainder 3 before it
# divides, so a row of remainder r is in peer_<(r + 1) modulo 4>.  Everything has
# statistics, the same indexes and the same settings, goes through the same socket,
# and gives the same answers, which is looked at first.
#
# PL/Proxy sends the SELECT of its function; as "called" that SELECT is inside a function
# of the shard's, whose plan stays.  Changes are always functions there.
#
# All draw from 4,096 customers, in a way that costs the client the same: those of
# "direct" are on shard s1, those of the others on all shards.
rows=${BENCH_ROWS:-1000000}
customers=$((rows / 10))
seconds=${BENCH_SECONDS:-3}
statements=${BENCH_STATEMENTS:-f g h i j l1 l2 l3 a b d c e}
contenders="shardlet ${BENCH_AGAINST:-direct plain fdw proxy}"
if [[ $contenders == *proxy* && ! -e $("$PG_CONFIG" --pkglibdir)/plproxy.so ]]; then
	echo "PL/Proxy is not installed in $("$PG_CONFIG" --pkglibdir): its figures are left out"
	contenders=${contenders/proxy/}
fi

# Where and what ------------------------------------------------------------

# database contender
database() {
	case $1 in
		shardlet) echo shop ;;
		direct) echo shop_s1 ;;
		called) echo shop_proxy ;;
		*) echo "shop_$1" ;;
	esac
}

# on database [argument...]: psql that stops at an error.
on() {
	local database=$1
	shift
	psql -XAtqd "$database" -v ON_ERROR_STOP=1 -v customers="$customers" -v host="$PGHOST" -v port="$PGPORT" "$@" >/dev/null
}

make_database() {
	psql -Xqd postgres -c "CREATE DATABASE $1" -c "ALTER DATABASE $1 SET jit = off"
}

make_shop() {
	local part p
	make_database shop_plain
	on shop_plain -f statement/tables.sql
	on shop_plain -v mine=true -f statement/rows.sql
	on shop_plain -c 'VACUUM ANALYZE'

	make_database shop
	on shop -c 'CREATE EXTENSION shardlet' -c "SELECT shardlet.add_shard('s' || s) FROM generate_series(1, 4) s" \
		-c "SELECT shardlet.create_map('shop')" -f statement/tables.sql -c "SELECT shardlet.make_reference('products')"
	for part in customers orders items; do
		on shop -c "SELECT shardlet.distribute('$part', 'shop', 'customer_id')"
		psql -Xqd shop_plain -c "COPY $part TO STDOUT" | on shop -c "COPY $part FROM STDIN"
	done
	for p in 1 2 3 4; do
		on postgres -c "ALTER DATABASE shop_s$p SET jit = off"
		on "shop_s$p" -c 'VACUUM ANALYZE'
	done
	on shop -c 'ANALYZE customers, orders, items, products'

	[[ $contenders == *fdw* || $contenders == *proxy* ]] || return 0
	for p in 0 1 2 3; do
		make_database "peer_$p"
		on "peer_$p" -f statement/tables.sql -f statement/proxy_shard.sql
		on "peer_$p" -v mine="hashint8extended(c, 8816678312871386365) & 3 = $p" -f statement/rows.sql
		on "peer_$p" -c 'VACUUM ANALYZE'
	done
	if [[ $contenders == *fdw* ]]; then
		make_database shop_fdw
		on shop_fdw -f statement/fdw.sql -c 'ANALYZE'
	fi
	if [[ $contenders == *proxy* ]]; then
		make_database shop_proxy
		on shop_proxy -f statement/proxy.sql
	fi
}

# draw contender: a line of pgbench that sets c to a random customer.  pgbench knows no
# arrays; a tree of CASE costs it a microsecond.
draw() {
	local only=true
	[ "$1" != direct ] || only="shardlet.route('shop', c) = 's1'"
	psql -XAtqd shop -c "SELECT c FROM generate_series(1::bigint, least($customers, 16384)) c WHERE $only ORDER BY hashint8(c) LIMIT 4096" |
		awk 'function tree(low, high,	middle) {
				if (low == high)
					return customer[low]
				middle = int((low + high + 1) / 2)
				return "CASE WHEN :i < " middle " THEN " tree(low, middle - 1) " ELSE " tree(middle, high) " END"
			}
			{ customer[NR] = $1 }
			END { print "\\set i random(1, " NR ")\n\\set c " tree(1, NR) }'
}

# The statements --------------------------------------------------------------

revenue='SELECT p.category, count(*), sum(i.qty * i.price) AS revenue FROM orders o
	JOIN items i ON i.customer_id = o.customer_id AND i.order_id = o.order_id JOIN products p ON p.product_id = i.product_id'

# sql statement: as everybody but PL/Proxy gets it.
sql() {
	case $1 in
		a) echo 'SELECT customer_id, order_id, created, status, total FROM orders WHERE customer_id = :c AND order_id = :o;' ;;
		b) echo "${revenue//$'\n'/} WHERE o.customer_id = :c GROUP BY p.category ORDER BY revenue DESC, p.category LIMIT 10;" ;;
		c) echo "INSERT INTO orders (customer_id, order_id, created, status, total) VALUES (:c, :n, now(), 'new', 9.99);" ;;
		d) echo 'UPDATE orders SET total = total + 0.01 WHERE customer_id = :c AND order_id = :o;' ;;
		e)
			echo 'BEGIN;'
			echo "INSERT INTO orders (customer_id, order_id, created, status, total) VALUES (:c, :n, now(), 'new', 0);"
			for line in 1 2 3; do
				echo "INSERT INTO items (customer_id, order_id, line, product_id, qty, price) VALUES (:c, :n, $line, :p, $line, 9.99);"
			done
			echo 'UPDATE orders SET total = 59.94 WHERE customer_id = :c AND order_id = :n;'
			echo 'COMMIT;'
			;;
		f) echo 'SELECT status, count(*), sum(total), avg(total) FROM orders GROUP BY status ORDER BY status;' ;;
		g) echo 'SELECT customer_id, sum(total) s FROM orders GROUP BY customer_id ORDER BY s DESC, customer_id LIMIT 10;' ;;
		h) echo 'SELECT customer_id, order_id, created, status, total FROM orders ORDER BY created DESC LIMIT 20;' ;;
		i) echo "${revenue//$'\n'/} GROUP BY p.category ORDER BY p.category;" ;;
		j) echo 'COPY (SELECT * FROM orders) TO STDOUT;' ;;
		l1) echo 'SELECT count(DISTINCT customer_id) FROM orders;' ;;
		l2) echo 'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total) FROM orders;' ;;
		l3) echo 'SELECT stddev(total) FROM orders;' ;;
	esac
}

# proxy_sql statement: the calls, and for those of all shards what makes one of the results.
proxy_sql() {
	case $1 in
		a) echo 'SELECT customer_id, order_id, created, status, total FROM get_order(:c, :o);' ;;
		b) echo 'SELECT * FROM get_revenue(:c);' ;;
		c) echo "SELECT add_order(:c, :n, 'new', 9.99);" ;;
		d) echo 'SELECT raise_total(:c, :o, 0.01);' ;;
		e) echo 'SELECT place_order(:c, :n, :p);' ;;
		f) echo 'SELECT status, sum(count), sum(sum), sum(sum) / sum(count) FROM all_status() GROUP BY status ORDER BY status;' ;;
		g) echo 'SELECT * FROM all_best() ORDER BY s DESC, customer_id LIMIT 10;' ;;
		h) echo 'SELECT * FROM all_latest(20) ORDER BY created DESC LIMIT 20;' ;;
		i) echo 'SELECT category, sum(count), sum(revenue) FROM all_revenue() GROUP BY category ORDER BY category;' ;;
		j) echo 'COPY (SELECT * FROM all_orders()) TO STDOUT;' ;;
		l1) echo 'SELECT sum(n) FROM all_customers() n;' ;;
		l2) echo 'SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total) FROM all_totals() total;' ;;
		l3) echo 'SELECT sqrt((sum(q) - sum(s) * sum(s) / sum(n)) / (sum(n) - 1)) FROM all_moments();' ;;
	esac
}

# name statement
name() {
	case $1 in
		a) echo 'point read' ;;
		b) echo 'three tables, one customer' ;;
		c) echo 'insert' ;;
		d) echo 'update by key' ;;
		e) echo 'transaction of five' ;;
		f) echo 'count, sum, avg by status' ;;
		g) echo 'ten best customers' ;;
		h) echo 'latest 20' ;;
		i) echo 'three tables by category' ;;
		j) echo 'COPY TO of all orders' ;;
		l1) echo 'count(DISTINCT)' ;;
		l2) echo 'percentile_cont' ;;
		l3) echo 'stddev' ;;
	esac
}

# promise statement clients contender: speed, as a multiple of the other's.
promise() {
	case "$1 $2 $3" in
		'a 1 direct') echo 0.55 ;;
		'a 8 direct') echo 0.36 ;;
		'b '?' direct') echo 0.7 ;;
		'e 1 direct') echo 0.55 ;;
		'e 8 direct') echo 0.35 ;;
		'a '?' proxy' | 'b '?' proxy') echo 1.4 ;;
		'c '?' proxy' | 'd '?' proxy') echo 1.3 ;;
		'h 1 proxy') echo 1.2 ;;
		'f 1 plain' | 'g 1 plain' | 'i 1 plain' | 'l3 1 plain') echo 1.0 ;;
	esac | sed 's/^/at least /'
}

# Running them ----------------------------------------------------------------

# write_script contender statement: for pgbench.
write_script() {
	{
		case $2 in
			[a-e]) cat "draw_${1/called/proxy}" ;;
		esac
		case $2 in
			a* | d) echo '\set o random(1, 10)' ;;
			c) echo '\set n random(1000, 1000000000000)' ;;
			e) printf '%s\n' '\set n random(1000, 1000000000000)' '\set p random(1, 1000)' ;;
		esac
		case $1 in
			proxy) proxy_sql "$2" ;;
			called) proxy_sql "$2" | sed 's/(/_called(/' ;;
			*) sql "$2" ;;
		esac
	} >"$2_$1.pgbench"
}

# per_second contender statement clients protocol.  The first second of what is short does
# not count: clients keep their connections, and processes that are new, up to five for
# one client, have caches to fill.
per_second() {
	if [ "$2" = j ]; then
		copy_per_second "$1"
	elif [[ $2 == [a-e] ]]; then
		pgbench -n -M "$4" -c "$3" -P 1 -T "$((seconds + 1))" -f "$2_$1.pgbench" "$(database "$1")" 2>&1 |
			awk '/^progress: / && $2 > 1.5 { sum += $4; n++ } END { if (n > 0) print sum / n }'
	else
		pgbench -n -M "$4" -c "$3" -T "$seconds" -f "$2_$1.pgbench" "$(database "$1")" | sed -n 's/^tps = \([0-9.]*\) .*/\1/p'
	fi
}

# pgbench knows no COPY: the second one of a session.
copy_per_second() {
	psql -XAtqd "$(database "$1")" -c '\timing on' -c '\o /dev/null' -f "j_$1.pgbench" -f "j_$1.pgbench" |
		sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p' | awk 'END { print 1000 / $1 }'
}

# measure statement clients protocol who...: a line with everybody's speed, or time for
# what takes long, and lines with the ratio to those who count.
measure() {
	local statement=$1 clients=$2 protocol=$3 title unit=ms results who medians= n=0
	shift 3
	title="$statement, $(name "$statement"), $clients client$([ "$clients" = 1 ] || echo s)"
	[ "$protocol" = prepared ] || title="$title, $protocol"
	[[ $statement != [a-e] ]] || unit='per second'
	results=$(for _ in $(seq "$rounds"); do
		for who; do
			printf '%s ' "$(per_second "$who" "$statement" "$clients" "$protocol")"
		done
		echo
	done)
	for who; do
		n=$((n + 1))
		medians+=" $who $(awk -v n=$n '{ print $n }' <<<"$results" | median | awk -v unit="$unit" '{
			x = unit == "ms" ? 1000 / $1 : $1; printf "%.*f", x < 10 ? 3 : 0, x }')"
	done
	echo "$title, $unit:$medians"
	n=0
	for who; do
		n=$((n + 1))
		case $statement$who in
			*shardlet | *fdw | [a-e]plain) continue ;;
		esac
		figure "$title: / $who" "$(awk -v n=$n '{ print $1 / $n }' <<<"$results" | median | awk '{ printf "%.2f\n", $1 }')" \
			"$([ "$protocol" = simple ] || promise "$statement" "$clients" "$who")"
	done
}

# Everybody's answer to what all shards have to do with, but for ties and digits.
answers() {
	local statement
	for statement in f g h i l1 l2 l3; do
		case $1 in
			proxy) proxy_sql $statement ;;
			*) sql $statement ;;
		esac
	done | psql -XAtq -v ON_ERROR_STOP=1 "$(database "$1")" | awk -F'|' 'NF == 5 { print $3; next } { for (i = 1; i <= NF; i++) printf "%s ", $i ~ /^[0-9.]+$/ ? sprintf("%.6f", $i) : $i; print "" }'
}

# A cluster that is kept, to look for something, has the rows already; then they have
# changed, each in its own way.
if [ "$(psql -XAtqd postgres -c "SELECT count(*) FROM pg_database WHERE datname = 'shop'")" = 0 ]; then
	make_shop
	for who in ${contenders/direct/}; do
		answers "$who" >"answers_$who"
		cmp answers_shardlet "answers_$who"
	done
	psql -Xqd postgres -c 'CHECKPOINT'
fi
for who in $contenders; do
	draw "$who" >"draw_$who"
done
for statement in $statements; do
	who=$contenders
	case $statement in
		b) who=${who/proxy/proxy called} ;;
		[a-e]) : ;;
		*) who=${who/direct/} ;;
	esac
	for one in $who; do
		write_script "$one" "$statement"
	done
	measure "$statement" 1 prepared $who
	case $statement in
		a)
			measure a 8 prepared $who
			measure a 1 simple $who
			measure a 8 simple $who
			;;
		[b-e]) measure "$statement" 8 prepared $who ;;
	esac
done
