
# verify(), table_sizes and activity() with servers that differ, and with one that is down.  What one server
# can show is in sql/monitor_verify.sql.

use strict;
use warnings;

use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 3, shard_conf => "log_statement = none\nwal_level = logical\n", router_conf => "log_statement = none\n");

$c->sql(q{
	SELECT shardlet.create_map('m', shardlets => 6);
	CREATE TABLE country (code text PRIMARY KEY, name text);
	INSERT INTO country VALUES ('de', 'Germany');
	SELECT shardlet.make_reference('country');
	CREATE TABLE t (k bigint PRIMARY KEY, v int);
	SELECT shardlet.distribute('t', 'm', 'k');
	INSERT INTO t SELECT i, i FROM generate_series(1, 100) i});

sub findings
{
	my ($columns, $where) = @_;
	return $c->sql("SELECT $columns FROM shardlet.verify() WHERE " . ($where // 'true'));
}

sub restart_with
{
	my ($number, $setting) = @_;
	$c->shard($number)->append_conf('postgresql.conf', $setting);
	$c->shard($number)->restart;
}

is(findings('*'), '', 'nothing is wrong');

### Settings

restart_with(2, 'max_prepared_transactions = 0');
restart_with(3, "wal_level = replica\nmax_connections = 20\nmax_wal_senders = 2");
$c->shard_sql(1, q{ALTER DATABASE app SET timezone = 'Asia/Tokyo'});
is(findings(q{severity, shard, regexp_replace(problem, 'router''s is \d+', 'router''s is more')}), <<'END' =~ s/\n\z//r, 'settings that hurt');
warning|s1|TimeZone is Asia/Tokyo, elsewhere Etc/UTC
error|s2|max_prepared_transactions is 0: transactions over several shards fail
warning|s3|max_connections is 20, the router's is more: each of its sessions may need a connection
warning|s3|wal_level is replica: shardlets cannot be moved online
END
$c->shard($_)->adjust_conf('postgresql.conf', $_ == 2 ? 'max_prepared_transactions' : 'wal_level', undef) for 2, 3;
$c->sql($_) for split /\n/, findings('repair', q{repair ~ 'SET'});
$c->shard($_)->restart for 2, 3;
is(findings('*'), '', 'the repairs heal them');

### What moves leave

$c->shard_sql(1, q{SELECT pg_create_logical_replication_slot('shardlet_0000abcd_5_7', 'pgoutput'); CREATE PUBLICATION shardlet_0000abcd_5_7});
$c->shard_sql(2, q{CREATE SUBSCRIPTION shardlet_0000abcd_5_7 CONNECTION 'dbname=none' PUBLICATION p WITH (connect = false)});
$c->shard_sql(2, q{CREATE TABLE other (); BEGIN; DROP TABLE other; PREPARE TRANSACTION 'other'});
is(findings('shard, object'), <<'END' =~ s/\n\z//r, 'leftovers');
s1|publication shardlet_0000abcd_5_7
s1|replication slot shardlet_0000abcd_5_7
s2|subscription shardlet_0000abcd_5_7
s2|prepared transaction 'other'
END
$c->sql($_) for split /\n/, findings('repair');
is(findings('*'), '', 'the repairs remove them');

### One shard is down

my $wrong = $c->sql(q{SELECT i FROM generate_series(1000, 2000) i WHERE shardlet.route('m', i::bigint) = 's2' LIMIT 1});
$c->shard_sql(1, "SET session_replication_role = replica; INSERT INTO t VALUES ($wrong, 1); UPDATE country SET name = 'x'");
ok($c->poll(q{SELECT string_agg(concat_ws(' ', tbl, n, rows, bytes, indexes), ', ' ORDER BY tbl::text)
	FROM (SELECT tbl, count(*) AS n, sum(rows) AS rows, min(bytes) > 0 AS bytes, min(index_bytes) > 0 AS indexes FROM shardlet.table_sizes GROUP BY tbl) s},
	'country 3 3 t t, t 3 101 t t'), 'sizes of all tables, on all shards');
$c->shard(3)->stop('immediate');
like(findings('severity, shard, object, problem, repair IS NULL', q{problem ~ 'answer'}), qr/^error\|s3\|shard s3\|shard does not answer, and was not checked: .*\|t$/,
	'a shard that is down is one row');
is(findings('severity, shard, object, rows', q{problem !~ 'answer'}), "error|s1|public.country|1\nerror|s1|public.t|1", 'the others are checked');
my ($status, $rows, $warnings) = $c->psql_err('SELECT DISTINCT shard FROM shardlet.table_sizes ORDER BY 1');
is("$status $rows", "0 s1\ns2", 'sizes on the others');
like($warnings, qr/WARNING:  SL004: shard "s3" is left out\nDETAIL:  \S/, 'and a warning');
is($c->sql(q{SELECT shard, state, query <> '' FROM shardlet.activity() WHERE state = 'unreachable'}), 's3|unreachable|t', 'activity has a row that says so');

like($c->sql(q{SELECT * FROM shardlet.draw('m')}), qr/^C s3 .* \? rows +\?$/m, 'a picture without its size');
like($c->sql('SELECT shardlet.report()'), qr/<td>s3<td>.*does not answer.*<h2>Findings<.*shard does not answer/s, 'and a page');
is($c->sqlstate(q{SELECT * FROM shardlet.restore_point('x')}), 'SL004', 'no restore point without it');

# A misplaced row cannot be moved to a shard that is down, and is not lost.
$c->sql($_) for split /\n/, findings('repair', 'repair IS NOT NULL');
is(findings('count(*)', q{problem !~ 'answer'}), '0', 'what is on other shards is healed');
$c->start($c->shard(3));
is(findings('*'), '', 'and nothing is wrong when it is back');
is($c->sql('SELECT count(*), sum(v) FROM t'), '101|5051', 'no row is lost');

### Who waits for whom

my $holder = $c->router->background_psql('app');
$holder->query_safe('BEGIN; UPDATE t SET v = 0 WHERE k = 1');
my $waiter = $c->psql_begin('UPDATE t SET v = 1 WHERE k = 1');
ok($c->poll(q{
	SELECT count(*) = 1 FROM shardlet.activity() w JOIN shardlet.activity() h ON h.shard = w.shard AND h.pid = ANY (w.blocked_by)
	WHERE w.query LIKE 'UPDATE%' AND w.wait_event = 'Lock:transactionid' AND w.router_pid <> h.router_pid
		AND h.state = 'idle in transaction' AND h.xact_age > '0' AND w.user_name = h.user_name}), 'activity shows who waits for whom on a shard');
$holder->query_safe('COMMIT');
$holder->quit;
$c->psql_end($waiter);

done_testing();
