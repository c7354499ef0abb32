
# Users without USAGE on schema shardlet, on the router and on the shards: what they do with tables needs
# nothing of it, while a shardlet is moved neither.

use strict;
use warnings;

use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2, router_conf => "log_statement = none\n",
	shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");

$c->sql(q{
	SELECT shardlet.create_map('m', shardlets => 4);
	CREATE TABLE t (k bigint PRIMARY KEY, g int, i int, b bigint, n numeric, f float8, d interval);
	CREATE TABLE u (k bigint, line int, v int, PRIMARY KEY (k, line));
	CREATE TABLE r (id int PRIMARY KEY, name text);
	CREATE TABLE own (id bigint PRIMARY KEY, v int);
	CREATE TABLE ids (id bigint PRIMARY KEY DEFAULT shardlet.next_id(), v int);
	INSERT INTO r SELECT i, 'r' || i FROM generate_series(0, 9) i;
	SELECT shardlet.distribute(x, 'm', y) FROM (VALUES ('t'::regclass, 'k'), ('u', 'k'), ('own', 'id'), ('ids', 'id')) v(x, y);
	SELECT shardlet.make_reference('r');
	INSERT INTO t SELECT i, i % 10, i, i, i, i, make_interval(secs => i) FROM generate_series(1, 200) i;
	INSERT INTO u SELECT i, l, i FROM generate_series(1, 200) i, generate_series(1, 2) l});
for my $shard (1, 2)
{
	$c->shard_sql($shard, q{CREATE ROLE plain LOGIN PASSWORD 'secret'; GRANT CREATE, USAGE ON SCHEMA public TO plain; REVOKE USAGE ON SCHEMA shardlet FROM PUBLIC});
	unlink $c->shard($shard)->data_dir . '/pg_hba.conf';
	$c->shard($shard)->append_conf('pg_hba.conf', qq{local all all trust
host all plain 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust});
	$c->shard($shard)->reload;
}
$c->sql(q{
	CREATE ROLE plain LOGIN;
	CREATE USER MAPPING FOR plain SERVER shardlet_tables OPTIONS (user 'plain', password 'secret');
	GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON t, u, r, ids TO plain;
	GRANT CREATE, USAGE ON SCHEMA public TO plain;
	ALTER TABLE own OWNER TO plain;
	REVOKE USAGE ON SCHEMA shardlet FROM PUBLIC});

my @reads = (
	'SELECT count(*), sum(b), avg(b), sum(n), avg(n), avg(i), stddev(i), variance(b), avg(f), corr(f, i), sum(d), avg(d), max(n) FROM t',
	'SELECT g, count(*), sum(b), avg(n), var_pop(i) FROM t GROUP BY g HAVING avg(b) > 0 ORDER BY g',
	'SELECT count(DISTINCT k), count(k), count(DISTINCT g) FROM t',
	'SELECT r.name, sum(v), avg(n) FROM t JOIN u USING (k) JOIN r ON r.id = t.g GROUP BY r.name ORDER BY 1',
	'SELECT a.k, b.k FROM t a JOIN t b ON a.i = b.g ORDER BY 1, 2 LIMIT 5',
	'SELECT k, sum(v) OVER (PARTITION BY k) FROM u ORDER BY k, line LIMIT 3',
	'SELECT * FROM t WHERE k = 5',
	'SELECT count(*) FROM t WHERE i > (SELECT avg(v) FROM u)',
	'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT sum(b) FROM t; SELECT sum(v) FROM u; COMMIT',
	'SET shardlet.consistent_reads = on; SELECT sum(b), avg(n) FROM t',
	'SET shardlet.consistent_reads = off; SELECT sum(b), avg(n) FROM t',
	'SET shardlet.scatter = off; SELECT sum(b), avg(n), count(DISTINCT k) FROM t',
	'SET plan_cache_mode = force_generic_plan; PREPARE p AS SELECT avg(b), sum(n) FROM t WHERE g = $1; EXECUTE p(1); EXECUTE p(2)',
	'SELECT k FROM t ORDER BY i DESC LIMIT 3 FOR UPDATE',
	'BEGIN; SELECT k FROM t WHERE g = 3 FOR UPDATE; COMMIT',
	'BEGIN; DECLARE x CURSOR FOR SELECT k, n FROM t ORDER BY k; FETCH 3 FROM x; SELECT avg(b) FROM t; FETCH 3 FROM x; CLOSE x; COMMIT',
	'EXPLAIN (ANALYZE, VERBOSE, COSTS OFF, TIMING OFF) SELECT g, avg(b) FROM t GROUP BY g',
	'CREATE TEMP VIEW w AS SELECT g, avg(n) AS a, count(DISTINCT k) AS c FROM t GROUP BY g; SELECT max(a), sum(c) FROM w',
	'COPY t TO STDOUT',
	'COPY (SELECT g, avg(b) FROM t GROUP BY g) TO STDOUT');
my @writes = (
	'INSERT INTO t (k, g) VALUES (1001, 1)',
	'INSERT INTO t (k, g) SELECT i, i % 10 FROM generate_series(2001, 2050) i',
	'INSERT INTO t (k, g, b) VALUES (1001, 2, 1), (1002, 3, 1) ON CONFLICT (k) DO UPDATE SET g = excluded.g',
	'INSERT INTO ids (v) SELECT i FROM generate_series(1, 10) i RETURNING v',
	"COPY t (k, g) FROM STDIN;\n3001\t1\n3002\t2\n\\.\n",
	'UPDATE t SET b = coalesce(b, 0) + 1 WHERE k = 1001',
	'UPDATE t SET b = coalesce(b, 0) + 1 WHERE g = 2',
	'UPDATE t SET b = (SELECT avg(v) FROM u) WHERE g = 3',
	'UPDATE t SET k = k + 100000 WHERE k = 1001',
	'UPDATE t SET i = u.v FROM u WHERE u.k = t.k AND u.line = 1',
	'DELETE FROM t WHERE k > 1000',
	'DELETE FROM u USING r WHERE r.id = u.v',
	"UPDATE r SET name = name || 'x'; INSERT INTO r VALUES (77, 'new'); DELETE FROM r WHERE id = 77",
	'WITH x AS (INSERT INTO t (k, g) VALUES (5001, 1), (5002, 2) RETURNING *) SELECT count(*), sum(k) FROM x',
	'BEGIN; UPDATE t SET g = g WHERE g = 4; SAVEPOINT s; SELECT a.k FROM t a JOIN t b ON a.i = b.g LIMIT 1; ROLLBACK TO s; SELECT avg(b) FROM t; COMMIT',
	'BEGIN; DECLARE x CURSOR FOR SELECT k FROM t ORDER BY g, k; FETCH 1 FROM x; UPDATE t SET g = g + 1; FETCH 5 FROM x; UPDATE t SET g = g - 1; COMMIT');
my @ddl = (
	'ALTER TABLE own ADD COLUMN w int DEFAULT 1',
	'CREATE INDEX ON own (v)',
	'ALTER TABLE own RENAME COLUMN id TO key',
	'ALTER TABLE own RENAME TO owned',
	'INSERT INTO owned SELECT i, i FROM generate_series(1, 20) i; SELECT avg(key), sum(v) FROM owned',
	'TRUNCATE owned');

sub run_as_plain
{
	my ($statement) = @_;
	my ($status, undef, $stderr) = $c->psql_err("SET SESSION AUTHORIZATION plain;\n$statement;");
	is($c->sqlstate_of($status, $stderr), '', $statement) or diag $stderr;
}

is($c->sqlstate("SET SESSION AUTHORIZATION plain; SELECT shardlet.route('m', 1)"), '42501', 'the user has no USAGE');
run_as_plain($_) for @reads, @writes, @ddl;
is($c->sql("SET SESSION AUTHORIZATION plain; SELECT count(*), sum(b), count(DISTINCT k) FROM t WHERE k BETWEEN 1 AND 100 AND g NOT IN (2, 3)"),
	$c->sql("SELECT count(*), sum(b), count(DISTINCT k) FROM t WHERE k BETWEEN 1 AND 100 AND g NOT IN (2, 3)"), 'the same answer');

# A move that has marked its rows, and waits for a transaction.
my $shardlet = $c->sql(q{SELECT min(shardlet) FROM shardlet.shardlets WHERE map = 'm' AND shard = 's1'});
$c->sql(q{CREATE PROCEDURE hold() LANGUAGE plpgsql AS $$
BEGIN
	PERFORM count(*) FROM t;
	WHILE NOT EXISTS (SELECT FROM pg_class WHERE relname = 'enough') LOOP
		PERFORM pg_sleep(0.1);
	END LOOP;
END $$});
my $held = $c->psql_begin('CALL hold()', timeout => 900);
ok($c->poll(q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 't'::regclass AND pid <> pg_backend_pid()}), 'a transaction is open');
my $move = $c->psql_begin("CALL shardlet.move_shardlet($shardlet, 's2')", timeout => 900);
ok($c->poll(q{SELECT count(*) = 1 FROM shardlet.moves WHERE open AND phase = 'wait'}), 'a move is under way');
run_as_plain($_) for @reads[ 0 .. 5, 9, 14, 15 ], @writes[ 10, 1, 2, 6, 7, 13, 14, 15 ];

# query() is for those who may call it; the shards ask for no more than before.
$c->sql('GRANT USAGE ON SCHEMA shardlet TO plain; GRANT EXECUTE ON FUNCTION shardlet.query TO plain');
run_as_plain(q{SELECT sum(c) FROM shardlet.query('m', 'SELECT count(*) AS c FROM t', per_shard => true) q(c bigint)});
$c->sql('CREATE TABLE enough ()');
my ($status, undef, $stderr) = $c->psql_end($held);
is($c->sqlstate_of($status, $stderr), '', 'the transaction ends');
($status, undef, $stderr) = $c->psql_end($move);
is($c->sqlstate_of($status, $stderr), '', 'so does the move');
run_as_plain($_) for @reads[ 0 .. 5 ];
run_as_plain('DROP TABLE owned');

done_testing();
