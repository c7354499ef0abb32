
# Statements that write to several shards do not deadlock with each other: they are
# rolled back and repeated, unseen.  Sessions that wait for another
# transaction wait as on one server.

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $clients = 8;
my $rounds = $ENV{SL_LONG} ? 100 : 12;
my $c = ShardletCluster->new(shards => 3, router_conf => 'max_connections = 100',
	shard_conf => "max_connections = 100\nmax_prepared_transactions = 50\nautovacuum = off");
my $dir = PostgreSQL::Test::Utils::tempdir;
my $database = $c->router->connstr('app');
my $number = 0;

# Keys 1 to 9 are on three shards, three on each; so are 11 to 19.
$c->sql(q{
	SELECT shardlet.create_map('m', 'list', '{int}', via => '$1 % 3');
	SELECT shardlet.assign_key('m', 's' || g, g % 3) FROM generate_series(1, 3) g;
	CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL, w int DEFAULT 0);
	INSERT INTO t SELECT g, 0 FROM generate_series(1, 30) g;
	SELECT shardlet.distribute('t', 'm', 'id');
	CREATE TABLE local (id int PRIMARY KEY);
	INSERT INTO local SELECT generate_series(1, 9);
	CREATE FUNCTION add_one() RETURNS void LANGUAGE plpgsql AS
		'BEGIN UPDATE t SET v = v + 1 WHERE id <= 9; END'});

sub script
{
	my ($name, $text) = @_;
	append_to_file("$dir/$name.sql", "$text\n");
	return "$dir/$name.sql";
}

# Runs a script in several sessions at a time.  What pgbench says goes to a file: a
# pipe is read only when it is waited for.
sub bench_begin
{
	my ($name, %option) = @_;
	my $run = { file => "$dir/$name." . $number++ };

	$run->{handle} = IPC::Run::start(
		[ 'pgbench', '-n', '-c', $option{clients} // $clients, '-j', 2, '--failures-detailed',
			$option{seconds} ? ('-T', $option{seconds}) : ('-t', $option{rounds} // $rounds),
			'-f', "$dir/$name.sql", '-d', $database ],
		'<', \undef, '>', $run->{file}, '2>', "$run->{file}.err",
		IPC::Run::timeout(3 * $PostgreSQL::Test::Utils::timeout_default));
	return $run;
}

sub bench_end
{
	my ($run) = @_;

	$run->{handle}->finish;
	$run->{output} = slurp_file($run->{file}) . slurp_file("$run->{file}.err");
	$run->{failed} = $run->{output} =~ /number of failed transactions: (\d+)/ ? $1 : -1;
	$run->{deadlocks} = $run->{output} =~ /number of deadlock failures: (\d+)/ ? $1 : 0;
	$run->{done} = $run->{output} =~ /actually processed: (\d+)/ ? $1 : 0;
	$run->{status} = $run->{handle}->result(0);
	return $run;
}

sub total { return $c->sql('SELECT sum(v) FROM t') }

# Each kind of statement, by all clients on the same rows.  Rows are locked in the
# order of their keys, which PostgreSQL alone would not deadlock by.
my %kinds = (
	update => ['UPDATE t SET v = v + 1 WHERE id <= 9;', 9],
	returning => ['UPDATE t SET v = v + 1 WHERE id <= 9 RETURNING id, v;', 9],
	with => ['WITH u AS (UPDATE t SET v = v + 1 WHERE id <= 9 RETURNING id) SELECT count(*) FROM u;', 9],
	upsert => ["\\set a random(1, 7)\n\\set b :a + 1\n\\set c :a + 2\n"
		  . 'INSERT INTO t VALUES (:a, 1), (:b, 1), (:c, 1) ON CONFLICT (id) DO UPDATE SET v = t.v + 1;', 3],
	upsert_returning => ['INSERT INTO t VALUES (1, 1), (2, 1), (3, 1) ON CONFLICT (id) DO UPDATE SET v = t.v + 1 RETURNING v;', 3],
	upsert_select => ["\\set a random(1, 7)\n"
		  . 'INSERT INTO t SELECT id, 1 FROM local WHERE id BETWEEN :a AND :a + 2 ORDER BY id ON CONFLICT (id) DO UPDATE SET v = t.v + 1;', 3],
	joined => ['UPDATE t SET v = v + 1 FROM local l WHERE l.id = t.id;', 9],
	locked => ["SELECT id FROM t WHERE id <= 9 ORDER BY id FOR UPDATE;", 0],
	block => ["BEGIN;\nUPDATE t SET v = v + 1 WHERE id <= 9;\nEND;", 9],
	function => ['SELECT add_one();', 9],
	query => [q{SELECT * FROM shardlet.query('m', 'UPDATE t SET v = v + 1 WHERE id <= 9 RETURNING id') AS q(id int);}, 9],
	inserted => ["\\set a random(100, 110)\n"
		  . 'INSERT INTO t VALUES (:a, 0), (:a + 1, 0), (:a + 2, 0) ON CONFLICT DO NOTHING;', 0],
	deleted => ["DELETE FROM t WHERE id > 99;", 0]);

for my $name (sort keys %kinds)
{
	my ($text, $rows) = @{ $kinds{$name} };
	my $before = total();

	script($name, $text);
	my $run = bench_end(bench_begin($name));
	is($run->{status}, 0, "$name: all clients went on") or diag($run->{output});
	is($run->{failed}, 0, "$name: nothing failed") or diag($run->{output});
	is(total() - $before, $run->{done} * $rows, "$name: each statement counts once");
}

# Some of them at a time, and transactions of several statements in between.  Only
# these can be the victims of a deadlock; and INSERT ... SELECT, which cannot be repeated.
script('transfer', "\\set a random(1, 9)\n\\set b random(1, 9)\nBEGIN;\nUPDATE t SET w = w - 1 WHERE id = :a;\n"
	  . "UPDATE t SET w = w + 1 WHERE id = :b;\nEND;");
{
	my $before = total();
	my $transfers = bench_begin('transfer', clients => 2, rounds => $rounds);
	my @runs = map { [ $_, bench_begin($_, clients => 1, rounds => $rounds / 3) ] } qw(update upsert joined);
	my $expected = 0;

	for (@runs)
	{
		my ($name, $run) = ($_->[0], bench_end($_->[1]));

		is("$run->{status} $run->{failed}", '0 0', "$name among others: nothing failed") or diag($run->{output});
		$expected += $run->{done} * $kinds{$name}[1];
	}
	bench_end($transfers);
	is($transfers->{failed}, $transfers->{deadlocks}, 'transactions fail by deadlocks alone') or diag($transfers->{output});
	is(total() - $before, $expected, 'each statement counts once');
	is($c->sql('SELECT sum(w) FROM t'), 0, 'and each transaction wholly or not at all');
}

# A deadlock by design: the statement that can be repeated gives way, and the
# transaction that cannot does not notice.
sub is_waiting
{
	my ($shard, $count) = @_;
	for (1 .. 600)
	{
		my $found = $c->shard_sql($shard, q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'public\.t'});

		return 1 if $found >= $count;
		select undef, undef, undef, 0.05;
	}
	return 0;
}

{
	my $before = total();
	my $go = "$dir/go";
	my $transaction = $c->psql_begin(qq{BEGIN;
UPDATE t SET v = v + 1 WHERE id = 1;
\\! until [ -e $go ]; do sleep 0.05; done
UPDATE t SET v = v + 1 WHERE id = 2;
COMMIT;});

	$c->poll(q{SELECT count(*) = 1 FROM shardlet.connections WHERE in_transaction}) or die 'no transaction';
	my $statement = $c->psql_begin('UPDATE t SET v = v + 1 WHERE id <= 9 RETURNING id;');
	ok(is_waiting(1, 1), 'a statement waits for a transaction');
	append_to_file($go, '');
	is($c->sqlstate_of(($c->psql_end($transaction))[0, 2]), '', 'which waits for the statement, and goes on');
	my ($status, $stdout, $stderr) = $c->psql_end($statement);
	is($stderr, '', 'the statement has no error');
	is(scalar(split /\n/, $stdout), 9, 'and returns each row once');
	is(total() - $before, 11, 'both have counted');
}

# A long transaction: who needs its rows waits, with the limits that it has, and
# who does not goes on, however contended the table is.
{
	my $before = total();
	my $go = "$dir/go_on";
	my $load = bench_begin('update', seconds => 2);
	my $long = $c->psql_begin(qq{BEGIN;
UPDATE t SET v = v + 1 WHERE id = 5;
\\! until [ -e $go ]; do sleep 0.05; done
COMMIT;});

	ok(is_waiting(2, 1), 'a client waits for a transaction, and others for the client');
	for (1 .. 3)
	{
		is($c->sqlstate('UPDATE t SET v = v + 1 WHERE id BETWEEN 11 AND 19', timeout => 60), '', 'others go on');
	}
	is($c->sqlstate("SET lock_timeout = '100ms'; UPDATE t SET v = v + 1 WHERE id <= 9"), '55P03', 'lock_timeout ends a wait');
	is($c->sqlstate("SET statement_timeout = '500ms'; UPDATE t SET v = v + 1 WHERE id <= 9"), '57014', 'so does statement_timeout');
	is($c->sqlstate('SELECT id FROM t WHERE id <= 9 FOR UPDATE NOWAIT'), '55P03', 'NOWAIT does not wait');
	is($c->sql('SELECT count(*) FROM (SELECT id FROM t WHERE id BETWEEN 4 AND 9 FOR UPDATE SKIP LOCKED) s') < 6, 1, 'SKIP LOCKED skips');
	my $waiting = $c->psql_begin('UPDATE t SET v = v + 1 WHERE id <= 9 /* cancelled */');
	ok($c->poll(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query ~ 'cancelled' AND state = 'active' AND pid <> pg_backend_pid()}), 'one more waits');
	sleep 1;
	$c->sql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query ~ 'cancelled' AND pid <> pg_backend_pid()});
	is($c->sqlstate_of(($c->psql_end($waiting))[0, 2]), '57014', 'and can be cancelled');
	append_to_file($go, '');
	is($c->sqlstate_of(($c->psql_end($long))[0, 2]), '', 'the transaction ends');
	bench_end($load);
	is("$load->{status} $load->{failed}", '0 0', 'and all clients go on') or diag($load->{output});
	is(total() - $before, $load->{done} * 9 + 1 + 27, 'each statement counts once');
}

# A shard dies under contention: sessions have errors, and no statement is done by
# half.
{
	my $load;

	$c->sql('UPDATE t SET v = 0 WHERE id <= 9');
	$load = bench_begin('update', seconds => 4);
	sleep 1;
	$c->kill9($c->shard(2));
	sleep 1;
	$c->start($c->shard(2));
	bench_end($load);
	ok($c->poll('SELECT count(*) = 0 FROM shardlet.prepared_transactions'), 'nothing stays prepared');
	is(bench_end(bench_begin('update'))->{failed}, 0, 'clients go on with the shard');
	is($c->sql('SELECT count(DISTINCT v) FROM t WHERE id <= 9'), 1, 'all rows were changed as often');
}

$c->destroy;
done_testing();
