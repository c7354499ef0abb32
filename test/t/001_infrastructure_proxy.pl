
# The proxy loses exactly what it is told to: between psql and a bare server.

use strict;
use warnings;

use CuttingProxy;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', "listen_addresses = '127.0.0.1'");
$node->start;
$node->safe_psql('postgres', 'CREATE TABLE t (a int)');

my $proxy = CuttingProxy->new(host => '127.0.0.1', port => $node->port);
my $connstr = 'host=127.0.0.1 dbname=postgres port=' . $proxy->port;

# Returns (status, stdout); a psql that hangs is stopped soon.
sub through
{
	my (@sql) = @_;
	my ($stdout, $stderr) = ('', '');
	my $psql = IPC::Run::start([ 'psql', '-XAtq', $connstr, map { ('-c', $_) } @sql ],
		'<', \undef, '>', \$stdout, '2>', \$stderr, my $timer = IPC::Run::timer(1));
	$psql->pump while $psql->pumpable && !$timer->is_expired;
	if ($timer->is_expired)
	{
		$psql->kill_kill;
		return 'timed out';
	}
	$psql->finish;
	chomp $stdout;
	return ($psql->result(0), $stdout);
}

sub struck
{
	my %count = $proxy->counts;
	return $count{struck};
}

sub rows
{
	return $node->safe_psql('postgres', 'SELECT count(*) FROM t');
}

my ($status, $stdout) = through('SELECT 1');
is("$status $stdout", '0 1', 'passes a query');

(undef, $stdout) = through('SELECT g, repeat(chr(65 + g % 26), 100) FROM generate_series(1, 20000) g');
is(length $stdout, length(join "\n", map { $_ . '|' . 'x' x 100 } 1 .. 20000), 'passes much');

$proxy->normal;
through('SELECT 1');
my %count = $proxy->counts;
cmp_ok($count{client}, '>=', 2, 'counts start-up and query');
cmp_ok($count{server}, '>', 4, 'counts answers');
is($count{struck}, 0, 'no rule has struck');

# The request is lost with the connection.
$proxy->rule(cut => 'client', text => 'INSERT');
is((through('SELECT 1', 'INSERT INTO t VALUES (1)'))[0], 2, 'cuts before a request');
is(rows(), 0, 'which did not arrive');
is(struck(), 1, 'the rule has struck');
is((through('SELECT 1'))[0], 0, 'and holds once');

# The reply is lost with the connection: the second command is done.
$proxy->rule(cut => 'server', type => 'C', nth => 2);
is((through('INSERT INTO t VALUES (1)', 'INSERT INTO t VALUES (2)'))[0], 2, 'cuts in place of an answer');
is(rows(), 2, 'of something that was done');

$proxy->rule(swallow => 'client', type => 'Q');
is((through('INSERT INTO t VALUES (3)'))[0], 'timed out', 'swallows a request');
is(rows(), 2, 'which did not arrive');

$proxy->rule(swallow => 'server', type => 'Z', nth => 2);
is((through('INSERT INTO t VALUES (3)'))[0], 'timed out', 'swallows an answer');
is(rows(), 3, 'of something that was done');

# Nothing moves until the network is back, then everything does.
$proxy->rule(blackhole => 'client', type => 'Q');
my ($out, $err) = ('', '');
my $psql = IPC::Run::start([ 'psql', '-XAtq', $connstr, '-c', 'SELECT 42' ], '<', \undef, '>', \$out, '2>', \$err,
	IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default));
for (1 .. 100)
{
	last if struck();
	sleep 0.05;
}
sleep 0.2;
$psql->pump_nb;
is("$out$err", '', 'holds everything back');
$proxy->normal;
$psql->finish;
is("$out$err", "42\n", 'and goes on');

# One connection is dead and others are not.
$proxy->rule(mute => 'client', text => 'INSERT');
is((through('INSERT INTO t VALUES (4)'))[0], 'timed out', 'mutes a connection');
is((through('SELECT 1'))[0], 0, 'and no other');
$proxy->reset;
is(rows(), 3, 'what waited is lost when all are reset');

$proxy->stop;
is((through('SELECT 1'))[0], 2, 'gone');

done_testing();
