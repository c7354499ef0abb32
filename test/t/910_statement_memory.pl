
# A session stays as small as it is, on the router and on the shards, however many
# statements it sends there and however many rows come back.
#
# SL_MEMORY_STATEMENTS and SL_MEMORY_ROWS make it shorter or longer.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $statements = $ENV{SL_MEMORY_STATEMENTS} || 100_000;
my $rows = $ENV{SL_MEMORY_ROWS} || 10_000_000;

plan skip_all => 'there is no /proc' if !-r '/proc/self/statm';

my $c = ShardletCluster->new(shards => 2, router_conf => "log_statement = none\n", shard_conf => "log_statement = none\n");
$c->sql(q{
	SELECT shardlet.create_map('m');
	CREATE TABLE t (k bigint PRIMARY KEY, v text, n numeric);
	SELECT shardlet.distribute('t', 'm', 'k');
	INSERT INTO t SELECT g, 'v' || g, g FROM generate_series(1, 1000) g;
});

# Kilobytes of this session: what the process has, and what shards' sessions have
# in their memory contexts.
my $size = q{SELECT 'size', split_part(pg_read_file('/proc/self/statm'), ' ', 2)::bigint * 4;
	SELECT 'shard', max(b) / 1024 FROM shardlet.query('m', 'SELECT sum(total_bytes)::bigint AS b FROM pg_catalog.pg_backend_memory_contexts', per_shard => true) AS q(b bigint);
};

# grows name before after: runs both in one session, and compares after each.
sub grows
{
	my ($name, $prepare, $before, $after) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir . '/statements.sql';
	append_to_file($file, "$prepare\n\\o /dev/null\n$before\n\\o\n$size\n\\o /dev/null\n$after\n\\o\n$size");
	my ($stdout, $stderr) = ('', '');
	my $result = $c->router->psql('app', undef, stdout => \$stdout, stderr => \$stderr, extra_params => [ '-f', $file ]);
	is($result, 0, "$name: all statements succeed") or diag($stderr);
	for my $what ('size', 'shard')
	{
		my @kilobytes = $stdout =~ /^$what\|(\d+)/mg;
		note("$name, $what: @kilobytes kB");
		cmp_ok($kilobytes[1] - $kilobytes[0], '<', 4096, "$name: $what");
	}
}

# statements from, to: of all kinds, no two alike.
sub statements
{
	my ($from, $to) = @_;
	my @kinds = (
		sub { "SELECT v, n FROM t WHERE k = " . $_[0] % 1000 . " AND n <> $_[0];" },
		sub { "EXECUTE look(" . $_[0] % 1000 . ");" },
		sub { "EXECUTE change(" . $_[0] % 1000 . ", $_[0]);" },
		sub { "INSERT INTO t VALUES (" . ($_[0] + 1000) . ", 'new', $_[0]);" },
		sub { "DELETE FROM t WHERE k = " . ($_[0] + 999) . ';' });
	return join("\n", map { $kinds[ $_ % @kinds ]->($_) } $from .. $to);
}

my $prepare = q{PREPARE look(bigint) AS SELECT t.*, (SELECT count(*) FROM t u WHERE u.k = t.k) FROM t WHERE k = $1;
	PREPARE change(bigint, numeric) AS UPDATE t SET n = $2 WHERE k = $1 RETURNING v;};
like($c->sql("$prepare EXPLAIN EXECUTE look(1)"), qr/Shardlet Ship/, 'statements by key are shipped');
grows("$statements statements", $prepare, statements(1, $statements / 10), statements($statements / 10 + 1, $statements));

# Each of the 1000 rows and more many times; the server throws them away.
my $many = int($rows / 1000);
for my $order ('', 'ORDER BY k')
{
	my $scan = "SELECT k, v, md5(g::text), n FROM t, generate_series(1, %d) g WHERE k <= 1000 $order";
	like($c->sql('EXPLAIN ' . sprintf($scan, 1)), qr/Shardlet Scatter/, 'a scan of all shards is scattered');
	grows("$rows rows" . ($order ? ' in order' : ''), '', sprintf("COPY ($scan) TO '/dev/null';", 10), sprintf("COPY ($scan) TO '/dev/null';", $order ? $many / 10 : $many));
}

$c->destroy;
done_testing();
