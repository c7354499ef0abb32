
# Writing to sharded tables when something goes wrong in the middle: a cancel, a
# lost connection, a dead shard, a slow one.  Afterwards nothing of the statement is
# there, nothing runs or stays prepared, and session and connections are usable.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep time);

my $c = ShardletCluster->new(shards => 2, proxy => 1);
$c->sql(q{
	SELECT shardlet.create_map('m');
	CREATE TABLE orders (customer_id bigint, order_id bigint, note text, PRIMARY KEY (customer_id, order_id));
	SELECT shardlet.distribute('orders', 'm', 'customer_id');
	CREATE TABLE waits (n int)});

my $running = q{SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'shardlet:%' AND state <> 'idle'};
my $prepared = q{SELECT count(*) FROM pg_prepared_xacts};

# Nothing of a failed statement may be left, anywhere.
sub is_clean
{
	my ($name) = @_;
	my $busy = 1;

	for (1 .. 50)
	{
		$busy = $c->shard_sql(1, $running) + $c->shard_sql(2, $running);
		last if !$busy;
		sleep 0.1;
	}
	is($busy, 0, "$name: nothing runs on the shards");
	is($c->shard_sql(1, $prepared) + $c->shard_sql(2, $prepared), 0, "$name: nothing is prepared");
	is($c->sql('SELECT count(*) FROM orders'), 0, "$name: no row is there");
	return;
}

# So many rows, by whichever way.  The last one never comes in time.
my $slow_rows = q{SELECT g, 1, repeat('x', 100) || CASE WHEN g = 20000 THEN pg_sleep(60)::text ELSE '' END FROM generate_series(1, 20000) g};
my %slow = (
	'INSERT of many rows'      => "INSERT INTO orders $slow_rows",
	'INSERT with ON CONFLICT'  => "INSERT INTO orders $slow_rows ON CONFLICT (customer_id, order_id) DO UPDATE SET note = excluded.note",
	'COPY through lines'       => q{COPY orders FROM PROGRAM 'for i in $(seq 1 5000); do echo $i,1,x; done; sleep 60' (FORMAT csv)},
	'COPY through the executor' => q{COPY orders FROM PROGRAM 'for i in $(seq 1 5000); do echo $i,1,x; done; sleep 60' (FORMAT csv) WHERE customer_id > 0},
	'INSERT of few rows'       => q{INSERT INTO orders SELECT g, 1, CASE WHEN g = 20 THEN pg_sleep(60)::text END FROM generate_series(1, 20) g},
);
my $pids = q{SELECT string_agg(pid::text, ',' ORDER BY shardlet_shard) FROM shardlet.query('m', 'SELECT pg_backend_pid()') AS q(pid int, shardlet_shard name)};

# A time-out in the middle; the connections survive, and so does the transaction
# around a savepoint.
for my $name (sort keys %slow)
{
	my $start = time;
	my (undef, $stdout, $stderr) = $c->psql_err(qq{\\set ON_ERROR_STOP 0
$pids;
SET statement_timeout = '1500ms';
$slow{$name};
BEGIN;
INSERT INTO waits VALUES (1);
SAVEPOINT a;
$slow{$name};
ROLLBACK TO a;
SET LOCAL statement_timeout = 0;
INSERT INTO orders VALUES (1, 5), (2, 5), (3, 5), (4, 5), (5, 5);
SELECT count(*) FROM orders;
ROLLBACK;
$pids;});
	my @line = split /\n/, $stdout;

	is(scalar(() = $stderr =~ /57014/g), 2, "$name: statement_timeout");
	is($line[1], 5, "$name: the transaction goes on after its savepoint");
	is($line[2], $line[0], "$name: with the same connections");
	cmp_ok(time - $start, '<', 20, "$name: and soon");
	is_clean("$name, time-out");
}

# The connection to a shard is lost in the middle of the data.
my $many = q{INSERT INTO orders SELECT g, 1, repeat('x', 1000) FROM generate_series(1, 5000) g};
$c->proxy(1)->rule(cut => 'client', type => 'd', nth => 3);
is($c->sqlstate($many), 'SL004', 'the connection is cut during COPY');
$c->proxy(1)->normal;
is_clean('cut during COPY');
$c->proxy(1)->rule(cut => 'server', type => 'G');
is($c->sqlstate($many), 'SL004', 'the connection is cut when COPY begins');
$c->proxy(1)->normal;
is_clean('cut when COPY begins');
$c->proxy(2)->rule(cut => 'client', type => 'c');
is($c->sqlstate($many), 'SL004', 'the connection is cut at the end of COPY');
$c->proxy(2)->normal;
is_clean('cut at the end of COPY');
$c->proxy(1)->rule(cut => 'client', text => 'INSERT INTO public.orders');
is($c->sqlstate(q{INSERT INTO orders SELECT g, 1 FROM generate_series(1, 50) g}), 'SL004', 'the connection is cut during a batch');
$c->proxy(1)->normal;
is_clean('cut during a batch');

# A shard's server dies in the middle.
my $session = $c->psql_begin(q{COPY orders FROM PROGRAM 'for i in $(seq 1 3000); do echo $i,1,x; done; sleep 3; for i in $(seq 3001 60000); do echo $i,1,x; done' (FORMAT csv)});
sleep 1.5;
$c->kill9($c->shard(1));
my ($status, undef, $stderr) = $c->psql_end($session);
is($c->sqlstate_of($status, $stderr), 'SL004', 'a shard dies during COPY');
is($c->sqlstate(q{INSERT INTO orders SELECT g, 1 FROM generate_series(1, 50) g}), 'SL004', 'a shard is dead');
is($c->sqlstate(q{TRUNCATE orders}), 'SL004', 'TRUNCATE needs all shards');
$c->start($c->shard(1));
ok($c->poll('SELECT count(*) = 0 FROM orders'), 'it is back');
is_clean('a shard dies during COPY');

# An error of one shard ends the statement before the last row is sent: data that
# are of no use are not waited for.
my $start = time;
is($c->sqlstate(q{COPY orders FROM PROGRAM 'set -e; echo 1,1,x; echo 1,1,x; i=2; while [ $i -lt 40 ]; do seq -f "%.0f,${i},yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy" 1 5000; sleep 0.5; i=$((i+1)); done' (FORMAT csv)}),
	'23505', 'a duplicate in the first lines');
cmp_ok(time - $start, '<', 15, 'is told before the last line');
is_clean('a duplicate');

# A shard that waits for a lock does not block others for ever, and does not deadlock the
# rest: the other shard's rows are taken meanwhile.
$c->sql(q{INSERT INTO orders SELECT g, 1 FROM generate_series(1, 10) g});
my $locker = $c->psql_begin(q{BEGIN; UPDATE orders SET note = 'held' WHERE order_id = 1; SELECT pg_sleep(3); COMMIT;});
sleep 1;
is($c->sql(q{UPDATE orders SET note = note || '!' WHERE order_id = 1 AND random() >= 0; SELECT count(*) FROM orders WHERE note = 'held!'}), 10,
	'UPDATE waits for rows that are locked, and sees what became of them');
$c->psql_end($locker);
$locker = $c->psql_begin(q{BEGIN; UPDATE orders SET note = 'held' WHERE order_id = 1; SELECT pg_sleep(3); COMMIT;});
sleep 1;
is($c->sql(q{UPDATE orders SET note = note || (SELECT 1 + count(*) FROM waits) || (SELECT count(*) FROM waits WHERE n = order_id) WHERE order_id = 1; SELECT count(*) FROM orders WHERE note = 'held10'}), 10,
	'also with subqueries in what is set');
$c->psql_end($locker);
is($c->sqlstate(q{SET shardlet.shard_timeout = '1s'; BEGIN; SELECT count(*) FROM orders; INSERT INTO orders SELECT 1, 1 FROM pg_sleep(0) ON CONFLICT DO NOTHING; COMMIT}), '', 'shard_timeout does not strike what is quick');

done_testing();
