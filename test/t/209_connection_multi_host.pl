
# Several hosts in an address: one that is silent costs its share of the time for
# connecting, and no more; all the others are tried.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = ShardletCluster->new(shards => 2, proxy => 1);
my ($s1, $silent) = ($c->shard(1)->port, $c->proxy(1)->port);
$c->sql(q{SELECT shardlet.create_map('m')});
$c->proxy(1)->rule(blackhole => 'client', nth => 1);

# Gives s1 these ports, all on this machine; no server listens on port 1.
sub ports
{
	my ($ports, $kind) = @_;
	my $hosts = join ',', ('127.0.0.1') x split /,/, $ports;

	$c->sql("ALTER SERVER s1 OPTIONS (SET host '$hosts', SET port '$ports')");
	$c->sql('ALTER SERVER s1 OPTIONS (DROP target_session_attrs)')
	  if $c->sql(q{SELECT srvoptions::text LIKE '%target_session%' FROM pg_foreign_server WHERE srvname = 's1'}) eq 't';
	$c->sql("ALTER SERVER s1 OPTIONS (ADD target_session_attrs '$kind')") if $kind;
	return;
}
sub timed
{
	my ($statement, $timeout) = @_;
	my $begin = time;
	my ($status, $stdout, $stderr) = $c->psql_err("SET shardlet.connect_timeout = '$timeout'; $statement");

	return ($stdout, $stderr, time - $begin);
}
my $query = q{SELECT count(*) FROM shardlet.query('m', 'SELECT 1') AS q(a int)};
my ($stdout, $stderr, $time);

# Every way to connect goes on to the next one.
ports("$silent,$s1");
for my $way (
	[ 'a fan-out', $query, 2 ],
	[ 'one shard', q{SELECT a FROM shardlet.query('m', 'SELECT 1', shards => '{s1}') AS q(a int)}, 1 ],
	[ 'execute', q{SELECT count(command) FROM shardlet.execute('m', 'SELECT 1')}, 2 ],
	[ 'health', q{SELECT count(*) FROM shardlet.health() WHERE ok}, 2 ],
	[ 'alter_shard', q{SELECT shardlet.alter_shard('s1', 'connect_timeout=3')}, '' ])
{
	my ($name, $statement, $answer) = @$way;

	($stdout, $stderr, $time) = timed($statement, '2s');
	is($stdout, $answer, "a silent host first: $name") or diag($stderr);
	cmp_ok($time, '<', 2, "$name: in a share of the time");
}
is($c->sql("SET shardlet.connect_timeout = '600ms'; $query; $query; SELECT count(*) FROM shardlet.connections WHERE pid = pg_backend_pid()"), "2\n2\n2", 'and the connection is kept');

# Silent ones at several places, among others that refuse.
for my $ports ("1,$silent,$s1", "$silent,1,$s1", "$silent,$silent,$s1", "$silent,$s1,$silent", "$s1,$silent")
{
	ports($ports);
	($stdout, $stderr, $time) = timed($query, '1500ms');
	is($stdout, 2, "ports $ports") or diag($stderr);
}

# One port for several hosts, and addresses beside names.
$c->sql("ALTER SERVER s1 OPTIONS (SET host 'a.example,b.example', ADD hostaddr '127.0.0.1,127.0.0.1', SET port '$silent,$s1')");
is((timed($query, '1s'))[0], 2, 'host and hostaddr');
$c->sql("ALTER SERVER s1 OPTIONS (SET host '127.0.0.2,127.0.0.1', DROP hostaddr, SET port '$s1')");
is((timed($query, '1s'))[0], 2, 'one port');

# What kind of server is wanted: all of them are asked.
ports("$silent,$s1", 'read-write');
is((timed($query, '1s'))[0], 2, 'read-write');
ports("$s1,$silent", 'prefer-standby');
is((timed($query, '2s'))[0], 2, 'prefer-standby comes back to the first');
ports("$s1,$silent", 'standby');
($stdout, $stderr, $time) = timed($query, '1s');
like($stderr, qr/SL004/, 'standby, and there is none');

# No host answers: the time is bounded, whatever the number.
ports("$silent,$silent,$silent");
($stdout, $stderr, $time) = timed($query, '1s');
like($stderr, qr/SL004.*No answer came within 1000 ms/s, 'all are silent');
cmp_ok($time, '<', 2.5, 'in the time for one');
ports("$silent,1");
($stdout, $stderr, $time) = timed($query, '1s');
like($stderr, qr/SL004.*Connection refused/s, 'silent, and refused');
($stdout, $stderr, $time) = timed(q{SELECT message FROM shardlet.health() WHERE shard = 's1'}, '1s');
like($stdout, qr/Connection refused/, 'health says so');
is($c->sqlstate("SET statement_timeout = '300ms'; SET shardlet.connect_timeout = '10s'; $query"), '57014', 'a cancel is answered');

# A cancel goes to the server that the statement is on, and not to one that has
# come back meanwhile.
my $pid = q{SELECT pid FROM shardlet.query('m', 'SELECT pg_backend_pid()', shards => '{s1}') AS q(pid int);};
$c->shard(2)->stop;
ports($c->shard(2)->port . ",$s1");
(undef, $stdout, $stderr) = $c->psql_err(sprintf(qq{\\set ON_ERROR_STOP 0
%s
\\! pg_ctl -s -w -D "%s" -l "%s" start >/dev/null 2>&1
SET statement_timeout = '300ms';
SELECT 1 FROM shardlet.query('m', 'SELECT 1 FROM pg_sleep(60)', shards => '{s1}') AS q(a int);
RESET statement_timeout;
%s}, $pid, $c->shard(2)->data_dir, $c->shard(2)->logfile, $pid));
$c->shard(2)->_update_pid(1);
like($stderr, qr/57014/, 'cancelled');
like($stdout, qr/^(\d+)\n\1$/, 'on the host that was reached');

$c->destroy;
done_testing();
