
# A move and DDL never hang each other, in either order: both end, with all rows.
# cancel_move ends whatever the move waits for, and a client that is gone stops what it
# has asked for.

use strict;
use warnings;

use MoveDdl;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep time);

my $c = ShardletCluster->new(shards => 2,
	router_conf => "shardlet.recovery_interval = 300ms\nshardlet.deadlock_timeout = 500ms\nlog_statement = none\n",
	shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");

# How long a move, or a statement that waits for one, may take before it counts as hanging.
my $limit = 60;

# DDL that comes during the copy.
$c->sql(q{
	SELECT shardlet.create_map('slow', shards => '{s1, s2}', shardlets => 2);
	CREATE TABLE t (id bigint PRIMARY KEY, v text);
	SELECT shardlet.distribute('t', 'slow', 'id');
	INSERT INTO t SELECT i, repeat('x', 200) FROM generate_series(1, 30000) i;
	ALTER SYSTEM SET shardlet.move_rate = '1MB';
	SELECT pg_reload_conf()});
my $shardlet = $c->sql(q{SELECT min(shardlet) FROM shardlet.shardlets WHERE map = 'slow'});

sub owner
{
	return $c->sql("SELECT shard FROM shardlet.shardlets WHERE shardlet = $shardlet");
}

sub other
{
	return owner() eq 's1' ? 's2' : 's1';
}

sub move_is_over
{
	my ($phase, $name) = @_;

	ok($c->poll('SELECT count(*) FROM shardlet.moves WHERE open', '0', $limit), "$name: the move is over");
	is($c->sql('SELECT phase FROM shardlet.moves ORDER BY move DESC LIMIT 1'), $phase, "$name: $phase");
	is($c->sql('SELECT count(*), sum(length(v)) FROM t'), '30000|6000000', "$name: all rows are there");
	is(join(' ', map { $c->shard_sql($_, q{SELECT (SELECT count(*) FROM pg_replication_slots), (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_subscription)}) } 1, 2),
		'0|0|0 0|0|0', "$name: nothing is left behind");
	return;
}

$c->sql("CALL shardlet.move_shardlet($shardlet, '@{[other()]}', wait => false)");
$c->poll(q{SELECT count(*) FROM shardlet.moves WHERE open AND rows_done > 0}, '1');
is($c->sqlstate('ALTER TABLE t ADD COLUMN z int DEFAULT 0', timeout => $limit), '', 'ALTER TABLE during the copy');
move_is_over('done', 'ALTER TABLE during the copy');
is($c->sql('SELECT sum(z) FROM t'), '0', 'with the column');
$c->sql(q{ALTER SYSTEM RESET shardlet.move_rate; SELECT pg_reload_conf()});

sub reached
{
	my ($point, $mark) = @_;
	for (1 .. 600)
	{
		return if $c->log_since($c->router, $mark) =~ /fault \Q$point\E: /;
		sleep 0.1;
	}
	die "$point was not reached";
}

# A move waits for something at some point.  cancel_move() returns all the same, and so
# does everybody who would wait for the move.
sub cancelled
{
	my ($name, $point, $node, $lock, $waiting) = @_;
	my $file = 'cancel' . $point;
	my $mark = $c->log_mark($c->router);
	my $session = $c->psql_begin("SET shardlet.fault = '$point:wait=$file'; CALL shardlet.move_shardlet($shardlet, '@{[other()]}')");

	reached($point, $mark);
	my $holder = $node->background_psql('app');
	$holder->query_safe("BEGIN; $lock");
	append_to_file($c->router->data_dir . "/$file", 'go');
	ok($waiting->(), "$name: the move waits");
	my $move = $c->sql('SELECT max(move) FROM shardlet.moves');
	my ($status, undef, $stderr) = $c->psql_err("CALL shardlet.cancel_move($move)", timeout => 40);
	is($c->sqlstate_of($status, $stderr), '', "$name: cancel_move() ends");
	ok($c->poll("SELECT phase NOT IN ('copy', 'follow', 'switch') FROM shardlet.moves WHERE move = $move"), "$name: it is on its way back");
	$holder->query_safe('ROLLBACK');
	$holder->quit;
	move_is_over('cancelled', $name);
	is($c->sqlstate_of(($c->psql_end($session))[0, 2]), '57014', "$name: the session that started the move is told");
	return;
}

my $waits_on = sub {
	my ($node, $what) = @_;
	return $node->poll_query_until('app', "SELECT count(*) > 0 FROM pg_stat_activity WHERE $what");
};
cancelled('a lock on the router', 'move_wait_done', $c->router, 'LOCK TABLE t IN ACCESS EXCLUSIVE MODE',
	sub { $waits_on->($c->router, q{backend_type = 'shardlet move' AND wait_event_type = 'Lock'}) });
cancelled('a slot', 'move_copy_slot', $c->shard(owner()), 'SELECT pg_current_xact_id()',
	sub { $waits_on->($c->shard(owner()), q{backend_type = 'walsender' AND wait_event_type = 'Lock'}) });
cancelled('CREATE SUBSCRIPTION', 'move_copy_subscribe', $c->shard(other()), 'LOCK TABLE t IN ACCESS EXCLUSIVE MODE',
	sub { $waits_on->($c->shard(other()), q{query LIKE 'CREATE SUBSCRIPTION%' AND wait_event_type = 'Lock'}) });
cancelled('a lock on the source', 'move_copy_lock', $c->shard(owner()), 'LOCK TABLE t IN ACCESS EXCLUSIVE MODE',
	sub { $waits_on->($c->shard(owner()), q{query LIKE 'LOCK TABLE%' AND wait_event_type = 'Lock' AND pid <> pg_backend_pid()}) });

# What a move waits for longer than it shall ends the attempt.
$c->sql(q{ALTER SYSTEM SET shardlet.move_wait_timeout = '1s'; SELECT pg_reload_conf()});
my $file = 'patience';
my $mark = $c->log_mark($c->router);
$c->sql("SET shardlet.fault = 'move_copy_subscribe:wait=$file'; CALL shardlet.move_shardlet($shardlet, '@{[other()]}', wait => false)");
reached('move_copy_subscribe', $mark);
my $holder = $c->shard(other())->background_psql('app');
$holder->query_safe('BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE');
append_to_file($c->router->data_dir . "/$file", 'go');
ok($c->poll(q{SELECT last_error ~ '(gave up waiting|lock timeout)' FROM shardlet.moves ORDER BY move DESC LIMIT 1}, 't', $limit), 'move_wait_timeout');
$holder->query_safe('ROLLBACK');
$holder->quit;
$c->sql(q{ALTER SYSTEM RESET shardlet.move_wait_timeout; SELECT pg_reload_conf()});
$c->poll('SELECT count(*) FROM shardlet.moves WHERE open', '0', $limit);

# A client that is gone stops its statement, on the router and on the shards.
$holder = $c->shard(1)->background_psql('app');
$holder->query_safe('BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE');
my $lost = $c->psql_begin(q{SET application_name = 'lost'; ALTER TABLE t ADD COLUMN y int});
ok($waits_on->($c->shard(1), q{query LIKE 'ALTER TABLE%' AND wait_event_type = 'Lock'}), 'ALTER TABLE waits on a shard');
$lost->{psql}->signal('KILL');
ok($c->poll(q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lost'}, '0', $limit), 'without a client it ends');
ok($c->shard(1)->poll_query_until('app', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE query LIKE 'ALTER TABLE%' AND state = 'active'}), 'on the shard as well');
$lost->{psql}->finish;
$holder->query_safe('ROLLBACK');
$holder->quit;
is($c->sql(q{SELECT count(*) FROM pg_attribute WHERE attrelid = 't'::regclass AND attname = 'y'}), '0', 'and nothing is done');
$c->sql('DROP TABLE t');

# A part of what 970_move_ddl_all.pl does.
my $meeting = MoveDdl->new($c);
for my $case (
	[ 'move_copy_lock', 'add column', 'ddl' ], [ 'move_copy_enable', 'add column', 'move' ], [ 'move_copy_compare', 'reindex', 'move' ],
	[ 'move_copy_subscribe', 'create index', 'ddl' ], [ 'move_follow', 'lock', 'ddl' ], [ 'move_switch_marker', 'set statistics', 'move' ], [ 'move_remove', 'truncate', 'move' ])
{
	$meeting->run(mode => 'online', point => $case->[0], ddl => $case->[1], first => $case->[2]);
}

done_testing();
