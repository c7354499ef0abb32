
# Deadlocks over several shards, and reads that see each transaction on all
# shards or on none.

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(time);

my $c = ShardletCluster->new(shards => 3, router_conf => 'shardlet.deadlock_timeout = 1s');
$c->sql(q{
	SELECT shardlet.create_map('m', 'list', '{int}');
	SELECT shardlet.assign_key('m', 's' || g, g) FROM generate_series(1, 3) g;
	SELECT * FROM shardlet.execute('m', 'CREATE TABLE t (a int PRIMARY KEY, v int)');
	SELECT q.* FROM generate_series(1, 3) g, LATERAL shardlet.query_key('m', 'INSERT INTO t VALUES ($1, 0) RETURNING a', ARRAY[g::text], g) AS q(a int);
	CREATE TABLE local (a int);
});

sub change
{
	my ($key) = @_;
	return "SELECT * FROM shardlet.query_key('m', 'UPDATE t SET v = v + 1 WHERE a = $key RETURNING v', NULL, $key) AS q(v int);";
}

# Waits until so many sessions have done their first step.
sub meet
{
	my ($count) = @_;
	return qq{
		SELECT pg_advisory_xact_lock_shared($count);
		DO \$\$ BEGIN
			FOR i IN 1 .. 1000 LOOP
				EXIT WHEN (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = $count AND granted) = $count;
				PERFORM pg_sleep(0.01);
			END LOOP;
		END \$\$;};
}

# Runs sessions side by side, each with two steps; returns their SQLSTATEs and how
# long it took.
sub run_sessions
{
	my (@sessions) = @_;
	my $count = @sessions;
	my $start = time;
	my @running;
	my @states;

	for my $steps (@sessions)
	{
		my $output = '';

		# From a file: what a program reads from here, it reads only when it is
		# waited for.
		my $script = PostgreSQL::Test::Utils::tempdir . '/session.sql';
		append_to_file($script, "\\set VERBOSITY verbose\nBEGIN; $steps->[0] " . meet($count) . " $steps->[1] COMMIT;");
		push @running, [
			IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-f', $script, '-d', $c->router->connstr('app') ],
				'<', \undef, '>', \my $ignored, '2>', \$output, IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default)),
			\$output ];
	}
	for (@running)
	{
		$_->[0]->finish;
		my ($state) = ${ $_->[1] } =~ /ERROR:  (\w{5})/;
		push @states, $state // '';
	}
	return (join(' ', sort @states), time - $start, map { ${ $_->[1] } } @running);
}

my ($states, $seconds, @errors) = run_sessions([ change(1), change(2) ], [ change(2), change(1) ]);
is($states, ' 40P01', 'two shards: one gives up');
like("@errors", qr/deadlock detected\nDETAIL:  Session \d+ waits for session \d+ on shard "s[12]"\./, 'the message says who waits for whom');
is($c->sql(q{SELECT sum(v) FROM shardlet.query('m', 'SELECT v FROM t') AS q(v int)}), 2, 'and the other went on');

($states) = run_sessions([ change(1), change(2) ], [ change(2), change(3) ], [ change(3), change(1) ]);
is($states, '  40P01', 'three shards: one gives up');
is($c->sql(q{SELECT sum(v) FROM shardlet.query('m', 'SELECT v FROM t') AS q(v int)}), 6, 'and the others went on');

($states, $seconds, @errors) = run_sessions([ 'LOCK TABLE local;', change(1) ], [ change(1), 'LOCK TABLE local;' ]);
is($states, ' 40P01', 'a shard and the router: one gives up');
like("@errors", qr/on the router/, 'which the message says');

# Through a transaction that is prepared: it waits on another shard for a
# constraint that is checked at the end.
$c->shard_sql($_, 'CREATE TABLE d (a int UNIQUE DEFERRABLE INITIALLY DEFERRED)') for 1 .. 3;
sub add
{
	my ($key, $value) = @_;
	return "SELECT * FROM shardlet.query_key('m', 'INSERT INTO d VALUES ($value) RETURNING a', NULL, $key) AS q(a int);";
}
($states, $seconds, @errors) = run_sessions([ change(1), add(2, 1) ], [ add(2, 1), 'SELECT pg_sleep(1);' . change(1) ]);
is($states, ' 40P01', 'a transaction that is prepared: one gives up');
$c->shard_sql(2, 'TRUNCATE d');

# The only shard that was written to waits with its COMMIT for a session that waits
# for a lock of the router.
($states, $seconds, @errors) = run_sessions([ 'LOCK TABLE local;', add(2, 2) ], [ add(2, 2), 'SELECT pg_sleep(1); LOCK TABLE local;' ]);
is($states, ' 40P01', 'a COMMIT that waits: it gives up');
is($c->shard_sql(2, 'SELECT count(*) FROM d'), 1, 'and the other one is there');

# Two who wait for one that is only slow.
($states) = run_sessions([ change(1) . change(2), 'SELECT pg_sleep(3);' ], [ change(3), change(1) ]);
is($states, ' ', 'a wait is no deadlock');
is($c->sql('SELECT count(*) FROM shardlet.prepared_transactions'), 0, 'nothing is left');

# Transfers at full speed while others add everything up.
my $dir = PostgreSQL::Test::Utils::tempdir;
my $seconds_long = $ENV{SL_LONG} ? 30 : 4;
append_to_file("$dir/transfer.sql", q{\set a random(1, 3)
\set b random(1, 3)
BEGIN;
SELECT * FROM shardlet.query_key('m', 'UPDATE t SET v = v - 1 WHERE a = $1 RETURNING v', ARRAY[least(:a, :b)::text], least(:a, :b)) AS q(v int);
SELECT * FROM shardlet.query_key('m', 'UPDATE t SET v = v + 1 WHERE a = $1 RETURNING v', ARRAY[greatest(:a, :b)::text], greatest(:a, :b)) AS q(v int);
COMMIT;
});
append_to_file("$dir/sum.sql", q{INSERT INTO sums SELECT sum(v) FROM shardlet.query('m', 'SELECT v FROM t') AS q(v int);
});
append_to_file("$dir/repeatable.sql", q{BEGIN ISOLATION LEVEL REPEATABLE READ;
INSERT INTO sums SELECT sum(v) FROM generate_series(1, 3) g, LATERAL shardlet.query_key('m', 'SELECT v FROM t', NULL, g) AS q(v int);
COMMIT;
});
$c->sql('CREATE TABLE sums (v int)');
my $total = $c->sql(q{SELECT sum(v) FROM shardlet.query('m', 'SELECT v FROM t') AS q(v int)});

sub sums
{
	my ($script, $consistent) = @_;
	my $database = $c->router->connstr('app');

	$c->sql('TRUNCATE sums');
	$ENV{PGOPTIONS} = "-c shardlet.consistent_reads=$consistent";
	command_ok([ 'sh', '-c', "pgbench -n -c 4 -T $seconds_long -f $dir/transfer.sql -d '$database' >/dev/null 2>&1 & pgbench -n -c 4 -T $seconds_long -f $dir/$script -d '$database' && wait" ],
		"$script, consistent reads $consistent");
	delete $ENV{PGOPTIONS};
	return $c->sql('SELECT count(DISTINCT v), min(v), max(v) FROM sums WHERE (SELECT count(*) FROM sums) > 20');
}

unlike(sums('sum.sql', 'off'), qr/^1\|/, 'without consistent reads the sums differ');
is(sums('sum.sql', 'on'), "1|$total|$total", 'with them all are equal');
is(sums('repeatable.sql', 'on'), "1|$total|$total", 'in a transaction with one snapshot too');

$c->destroy;
done_testing();
