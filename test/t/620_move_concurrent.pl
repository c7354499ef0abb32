
# Moves meet everything else: long transactions, DDL, another move, a transaction
# in doubt, those who work on shards directly.

use strict;
use warnings;

use MoveProbe;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep);

my $c = ShardletCluster->new(shards => 3, router_conf => "shardlet.recovery_interval = 300ms\nlog_statement = none\n",
	shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");
my $probe = MoveProbe->new($c);
my $folder = PostgreSQL::Test::Utils::tempdir;
my $number = 0;

# Begins a move, and waits until it is at a point.  Returns what lets it go on.
sub stop_at
{
	my ($mode, $phase, $point) = @_;
	my $file = "$folder/go" . $number++;
	my $session = $probe->start_move($mode, ($point // "move_$phase") . ":wait=$file");

	$c->poll("SELECT count(*) FROM shardlet.moves WHERE open AND phase = '$phase'", '1');
	sleep 0.2;
	return sub {
		append_to_file($file, 'go');
		my ($status, undef, $stderr) = $c->psql_end($session);
		return $c->sqlstate_of($status, $stderr);
	};
}

# A transaction that has used a table holds the move up, and sees no row twice.
my $reader = $c->router->background_psql('app', on_error_stop => 0);
$reader->query_safe('BEGIN; SELECT count(*) FROM orders');
my $session = $probe->start_move('online', '');
$c->poll(q{SELECT phase FROM shardlet.moves WHERE open}, 'wait');
sleep 0.5;
is($c->sql('SELECT phase FROM shardlet.moves WHERE open'), 'wait', 'a move waits for an older transaction');
is($reader->query_safe('SELECT count(*) FROM orders'), '2000', 'which sees each row once');
$reader->query_safe('COMMIT');
my ($status, undef, $stderr) = $c->psql_end($session);
is($c->sqlstate_of($status, $stderr), '', 'and goes on when it is over');
$probe->is_whole('after a long transaction');

# One that keeps its snapshots cannot be followed over a switch; others can.
my $go = stop_at('online', 'switch');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM customers');
my $other = $c->router->background_psql('app', on_error_stop => 0);
$other->query_safe('BEGIN; PREPARE p AS SELECT count(*) FROM orders; EXECUTE p');
my $file = "$folder/settle";
append_to_file("$folder/go" . ($number - 1), 'go');
$c->poll(q{SELECT phase FROM shardlet.moves WHERE open}, 'settle');
is($other->query_safe('EXECUTE p'), '2000', 'READ COMMITTED sees each row once behind the switch');
my ($answer, $failed) = $reader->query('SELECT count(*) FROM customers');
like($reader->{stderr} // '', qr/could not serialize access because rows were moved/, 'REPEATABLE READ has to begin anew');
$reader->{stderr} = '';
$reader->query('ROLLBACK');
$other->query_safe('COMMIT');
is($go->(), '', 'the move goes on');
$probe->is_whole('after REPEATABLE READ');

# So does one that has its snapshots from tables of another map; old rows are not
# removed while it could look for new ones.
$c->sql(q{
	SELECT shardlet.create_map('else', shards => '{s1, s2}', shardlets => 4);
	CREATE TABLE elsewhere (k bigint PRIMARY KEY);
	SELECT shardlet.distribute('elsewhere', 'else', 'k');
	INSERT INTO elsewhere SELECT generate_series(1, 100)});
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM elsewhere');
$session = $probe->start_move('online', '');
$c->poll(q{SELECT phase FROM shardlet.moves WHERE open}, 'settle');
$reader->query('SELECT count(*) FROM customers');
like($reader->{stderr} // '', qr/could not serialize access because rows were moved/, 'REPEATABLE READ that has used another map');
$reader->{stderr} = '';
$reader->query('ROLLBACK');
($status, undef, $stderr) = $c->psql_end($session);
is($c->sqlstate_of($status, $stderr), '', 'the move goes on when it is over');

# One that began after the switch keeps seeing orphaned rows, which must be filtered as
# long as it lives; the same for copied ones when a move is undone.
for my $case (['remove', 'finish', 'move_remove:wait=%s'], ['undo_remove', 'undo_finish', 'move_switch:error,move_undo_remove:wait=%s'])
{
	my ($phase, $next, $fault) = @$case;
	my $name = "go_$phase";

	$session = $probe->start_move('online', sprintf $fault, $name);
	$c->poll('SELECT phase FROM shardlet.moves WHERE open', $phase);
	$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM orders');
	append_to_file($c->router->data_dir . "/$name", 'go');
	$c->poll(q{SELECT sum(n) FROM shardlet.query('mv', 'SELECT count(*) FROM orders', per_shard => true) AS (n bigint)}, '2000');
	sleep 0.3;
	is($reader->query_safe('SELECT count(*) FROM orders'), '2000', "$phase: each row once in a transaction that began before");
	is($c->sql('SELECT phase FROM shardlet.moves WHERE open'), $phase, "$phase: which is waited for");
	$reader->query_safe('COMMIT');
	$c->psql_end($session);
	$probe->is_whole("after $phase");
}

# No other borders until everything is removed.
$go = stop_at('read_only', 'remove');
my $moved = $c->sql(qq{SELECT k FROM generate_series(1, 200) k WHERE (shardlet.locate('mv', k)).shardlet = $probe->{shardlet} LIMIT 1});
is($c->sqlstate("SELECT shardlet.isolate_key('mv', $moved)"), 'SL008', 'no key is isolated while old rows are removed');
is($c->sqlstate("SELECT shardlet.split_shardlet($probe->{shardlet})"), 'SL008', 'nor the shardlet split');
is($go->(), '', 'the move goes on');
$probe->is_whole('after that');

# DDL in the middle: the new column is there, on both sides.
$go = stop_at('online', 'follow');
$c->sql(q{ALTER TABLE orders ADD note text DEFAULT 'x'});
$c->sql(q{UPDATE orders SET note = 'y' WHERE id % 2 = 0});
is($go->(), '', 'ALTER TABLE meanwhile');
is($c->sql(q{SELECT note, count(*) FROM orders GROUP BY note ORDER BY note}), "x|1000\ny|1000", 'values of the new column');
$c->sql('ALTER TABLE orders DROP note');
$go = stop_at('read_only', 'verify');
$c->sql(q{CREATE TABLE late (k bigint PRIMARY KEY)});
is($c->sqlstate(q{SELECT shardlet.distribute('late', 'mv', 'k')}), 'SL008', 'no table joins the map meanwhile');
is($c->sqlstate(q{SELECT shardlet.undistribute('orders')}), 'SL008', 'nor leaves it');
is($c->sqlstate(q{SELECT shardlet.detach('orders')}), 'SL008', 'in whichever way');
is($c->sqlstate("SELECT shardlet.split_shardlet($probe->{shardlet})"), 'SL008', 'the shardlet is not split');
is($c->sqlstate("SELECT shardlet.alter_shardlet($probe->{shardlet}, state => 'online')"), 'SL008', 'nor changed');
is($c->sql('SELECT count(*) FROM orders'), '2000', 'copied rows do not count');
my $key = $c->sql(qq{SELECT k FROM generate_series(1, 200) k WHERE (shardlet.locate('mv', k)).shardlet = $probe->{shardlet} LIMIT 1});
is($c->sqlstate("UPDATE customers SET name = name WHERE id = $key"), 'SL003', 'read-only');
is($c->sqlstate('UPDATE customers SET name = name'), 'SL003', 'for all shards, too');
is($c->sql("SELECT count(*) FROM customers WHERE id = $key"), '1', 'but readable');
is($c->sqlstate("UPDATE customers SET name = name WHERE id = $key", node => $c->shard($probe->{from})), 'SL003', 'also for those who come directly');
is($go->(), '', 'the move goes on');
$c->sql('DROP TABLE late');
$probe->is_whole('after DDL');

# A copy that differs is found out, and the move undone: by a value of one row, and by
# values that two rows have exchanged.
sub wait_on_target
{
	my ($query, $expected) = @_;
	return ok($c->shard($probe->{to})->poll_query_until('app', $query, $expected), "the target: $query");
}
my $other_key = $c->sql(qq{SELECT k FROM generate_series(1, 200) k WHERE k <> $key AND (shardlet.locate('mv', k)).shardlet = $probe->{shardlet} LIMIT 1});
my $replica = 'SET session_replication_role = replica;';
for my $case (
	['read_only', 'verify', 'move_verify', "UPDATE customers SET name = name || ' ' WHERE id = $key"],
	['read_only', 'verify', 'move_verify', "UPDATE customers SET name = 'c' || CASE id WHEN $key THEN $other_key ELSE $key END WHERE id IN ($key, $other_key)"],
	['online', 'copy', 'move_copy_commit', "UPDATE customers SET name = name || ' ' WHERE id = $key"])
{
	my ($mode, $phase, $point, $change) = @$case;
	$go = stop_at($mode, $phase, $point);
	wait_on_target("SELECT count(*) = 1 FROM customers WHERE id = $key", 't');
	$c->shard_sql($probe->{to}, "$replica $change");
	is($go->(), '55000', "$mode: a copy that differs");
	like($c->sql('SELECT last_error FROM shardlet.moves ORDER BY move DESC LIMIT 1'), qr/rows of table "customers" differ/, 'is found out');
	$probe->is_whole('and removed');
}

# Changes arrive while rows are still compared, and do not count as a difference.
$go = stop_at('online', 'copy', 'move_copy_compare');
$c->sql("UPDATE customers SET name = 'meanwhile' WHERE id = $key");
wait_on_target("SELECT name = 'meanwhile' FROM customers WHERE id = $key", 't');
is($go->(), '', 'changes arrive before rows are compared');
is($c->sql("SELECT name FROM customers WHERE id = $key"), 'meanwhile', 'and are there');
$c->sql("UPDATE customers SET name = 'c$key' WHERE id = $key");
$probe->is_whole('after changes meanwhile');

# Who comes to the old owner directly is told the new one.
$go = stop_at('online', 'settle');
my ($code, undef, $message) = $c->psql_err("UPDATE customers SET name = name WHERE id = $key", node => $c->shard($probe->{from}));
like($message, qr/SL002.*DETAIL:  map "mv" version \d+: key is on shard "$probe->{to}"/s, 'SL002 names the owner');
is($go->(), '', 'the move goes on');

# A transaction in doubt on the source.
$c->shard_sql($probe->{to}, "BEGIN; UPDATE customers SET name = name WHERE id = $key; PREPARE TRANSACTION 'somebody'");
$session = $probe->start_move('read_only', '');
sleep 1;
is($c->sql('SELECT count(*) FROM shardlet.moves WHERE open'), '1', 'a move waits for a transaction in doubt');
$c->shard_sql($probe->{from}, "COMMIT PREPARED 'somebody'");
($status, undef, $stderr) = $c->psql_end($session);
is($c->sqlstate_of($status, $stderr), '', 'and goes on when it is decided');
$probe->is_whole('after a transaction in doubt');

# Two at a time of different shardlets.
my @shardlets = split /\n/, $c->sql(q{SELECT shardlet FROM shardlet.shardlets WHERE map = 'mv' AND shard <> 's3' ORDER BY shardlet});
my @sessions = map { $c->psql_begin("CALL shardlet.move_shardlet($_, 's3')") } @shardlets;
my @states = map { $c->sqlstate_of(($c->psql_end($_))[0, 2]) } @sessions;
is(join(' ', map { $_ eq '' ? 'ok' : $_ } @states), join(' ', map { 'ok' } @shardlets), 'several moves at a time');
$probe->{shards} = 3;
$probe->is_whole('after several moves');
is($c->sqlstate(q{CALL shardlet.drain_shard('s3', parallel => 3)}), '', 'and back');
is($c->sql(q{SELECT count(*) FROM shardlet.shardlets WHERE map = 'mv' AND shard = 's3'}), '0', 'the shard is empty');
$probe->is_whole('after drain_shard');

# Orphaned rows are deleted, and the table is not truncated, while a session of the shard has
# it open: it is not waited for, and no session queues for it.
$c->sql(q{SELECT shardlet.create_map('solo', shards => '{s1}', shardlets => 1); CREATE TABLE solo (k bigint PRIMARY KEY);
	SELECT shardlet.distribute('solo', 'solo', 'k'); INSERT INTO solo SELECT generate_series(1, 100)});
my $solo = $c->sql(q{SELECT shardlet FROM shardlet.shardlets WHERE map = 'solo'});
my $direct = $c->shard('s1')->background_psql('app', on_error_stop => 0);
is($direct->query_safe('BEGIN; SELECT count(*) FROM solo'), '100', 'a session reads a table of the shard');
is($c->sqlstate("CALL shardlet.move_shardlet($solo, 's2', 'read_only')"), '', 'its rows are moved');
is($direct->query_safe(q{SELECT count(*), pg_relation_size('solo') > 0 FROM solo}), '0|t', 'and deleted');
$direct->query_safe('COMMIT');
is($c->sqlstate("CALL shardlet.move_shardlet($solo, 's1', 'read_only')"), '', 'they come back');
is($c->shard_sql('s2', q{SELECT count(*), pg_relation_size('solo') > 0 FROM solo}), '0|f', 'and the table is emptied');
is($c->sql('SELECT count(*) FROM solo'), '100', 'all rows are there');

# A map without tables, and the process ends while it waits for the slot.
$c->sql(q{SELECT shardlet.create_map('void', shards => '{s1}', shardlets => 1)});
my $void = $c->sql(q{SELECT shardlet FROM shardlet.shardlets WHERE map = 'void'});
$direct->query_safe('BEGIN; SELECT pg_current_xact_id()');
$session = $c->psql_begin("CALL shardlet.move_shardlet($void, 's2')");
$c->shard('s1')->poll_query_until('app', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'CREATE_REPLICATION_SLOT%' AND state = 'active'});
my $mover = $c->sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'shardlet move'});
is($c->sql("SELECT pg_terminate_backend($mover)"), 't', 'a mover is ended');
$c->poll("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'shardlet move' AND pid <> $mover", '1');
$direct->query_safe('COMMIT');
is($c->sqlstate_of(($c->psql_end($session))[0, 2]), '', 'another goes on where it was');
is($c->sql(q{SELECT shard FROM shardlet.shardlets WHERE map = 'void'}), 's2', 'and the shardlet is moved');

# What online moves need is used up: refused before anything happens, and other modes
# are not.
my $origins = $c->shard_sql('s2', q{SELECT coalesce(current_setting('max_active_replication_origins', true), current_setting('max_replication_slots'))});
for my $limit (
	['s1', 'slot', q{pg_create_physical_replication_slot('other_' || i) FROM generate_series(1, current_setting('max_replication_slots')::int) i},
		q{pg_drop_replication_slot(slot_name) FROM pg_replication_slots}],
	['s2', 'origin', "pg_replication_origin_create('other_' || i) FROM generate_series(1, $origins) i",
		q{pg_replication_origin_drop(roname) FROM pg_replication_origin}])
{
	my ($shard, $what, $use_up, $free) = @$limit;

	$c->shard_sql($shard, "SELECT $use_up");
	($status, undef, $stderr) = $c->psql_err("CALL shardlet.move_shardlet($solo, 's2', 'online')");
	is($c->sqlstate_of($status, $stderr), '55000', "no $what is free");
	like($stderr, qr/no replication $what is free on shard "$shard".*HINT:  Raise there: max_\w+\. Or use mode "read_only"\./s, 'with a hint');
	$c->shard_sql($shard, "SELECT $free");
}
is($c->sqlstate("CALL shardlet.move_shardlet($solo, 's2', 'online')"), '', 'the move is possible again');
is($c->sql('SELECT count(*) FROM solo'), '100', 'with all rows');

$direct->quit;
$reader->quit;
$other->quit;
done_testing();
