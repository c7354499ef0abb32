
# A shard that dies after k rows: with 'fail' one error, with 'skip' the rows of
# the others, a warning, and never a torn row.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 3, proxy => 1);
$c->sql(q{SELECT shardlet.create_map('m'); SELECT * FROM shardlet.execute('m', 'CREATE TABLE t AS SELECT g AS a, repeat(g::text, 500) AS b FROM generate_series(1, 20) g')});
my $rows = q{SELECT count(*), bool_and(b = repeat(a::text, 500)), count(*) FILTER (WHERE shard <> 's2') FROM (SELECT a, b, shardlet_shard AS shard FROM shardlet.query('m', '%s', on_error => '%s') AS q(a int, b text, shardlet_shard name)) r};

# A row is told by a text that no other answer holds: the worker asks too, through the same proxy.
for my $text ('SELECT a, b FROM t', 'SELECT a, b FROM t ORDER BY a')
{
	for my $k (0 .. 10)
	{
		my $number = $k + 1;
		$c->sql(q{SELECT 1 FROM shardlet.query('m', 'SELECT 1') AS q(a int)});
		$c->proxy(2)->rule(cut => 'server', type => 'D', text => $number x 100);
		my (undef, $stdout, $stderr) = $c->psql_err(sprintf($rows, $text, 'skip') . '; SELECT * FROM shardlet.missing_shards()');
		like($stdout, qr/^\d+\|t\|40\ns2$/, "skip after $k rows: $text");
		like($stderr, qr/WARNING:  SL004: shard "s2" is left out/, 'with a warning');
		$c->proxy(2)->normal;
	}
	$c->proxy(2)->rule(cut => 'server', type => 'D', text => '3' x 100);
	is($c->sqlstate(sprintf($rows, $text, 'fail')), 'SL004', "fail: $text");
	$c->proxy(2)->normal;
	is($c->sql(sprintf($rows, $text, 'fail')), '60|t|40', 'and back');
}

# Down from the start; all of them.
$c->kill9($c->shard(2));
like($c->sql(sprintf($rows, 'SELECT a, b FROM t', 'skip')), qr/^40\|t\|40$/, 'a dead shard is left out');
is($c->sqlstate(sprintf($rows, 'SELECT a, b FROM t', 'fail')), 'SL004', 'or an error');
is($c->sqlstate(q{SELECT * FROM shardlet.execute('m', 'INSERT INTO t VALUES (0)')}), 'SL004', 'execute does nothing');
is($c->shard_sql(1, 'SELECT count(*) FROM t WHERE a = 0'), 0, 'anywhere');
$c->kill9($c->shard(1));
$c->kill9($c->shard(3));
is($c->sqlstate(sprintf($rows, 'SELECT a, b FROM t', 'skip')), 'SL004', 'all are dead');
$c->start($c->shard($_)) for 1 .. 3;
is($c->sql(sprintf($rows, 'SELECT a, b FROM t', 'fail')), '60|t|40', 'all are back');

# Many sessions with failing statements neither hang nor leak.
my $file = PostgreSQL::Test::Utils::tempdir . '/fail.sql';
append_to_file($file, q{SELECT * FROM shardlet.query('m', 'SELECT 1 / (a - 7), b FROM t') AS q(a int, b text)} . "\n");
system_or_bail('sh', '-c', "for i in \$(seq 100); do psql -X -q -f '$file' -f '$file' -f '$file' -d '" . $c->router->connstr('app') . "' >/dev/null 2>&1 & done; wait");
ok($c->poll(q{SELECT count(*) FROM pg_stat_activity WHERE datname = 'app' AND pid <> pg_backend_pid()}, 0, 30), 'no session is left');
is($c->shard_sql(1, q{SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'shardlet:%' AND state <> 'idle'}), 0, 'nothing runs');
is($c->sql(sprintf($rows, 'SELECT a, b FROM t', 'fail')), '60|t|40', 'all is well');

$c->destroy;
done_testing();
