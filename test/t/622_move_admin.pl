
# A change of maps, shards and tables while a move is under way is refused, or
# the move is given up; and no row is lost by it.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep);

my $c = ShardletCluster->new(shards => 3, router_conf => "shardlet.recovery_interval = 300ms\nlog_statement = none\n",
	shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");
my $number = 0;

$c->sql(q{
	SELECT shardlet.create_map('m', shards => '{s1, s2}', shardlets => 2);
	CREATE TABLE t (k bigint PRIMARY KEY, v int);
	SELECT shardlet.distribute('t', 'm', 'k');
	INSERT INTO t SELECT i, i FROM generate_series(1, 1000) i});

# The shardlet of a map that a shard has.
sub shardlet_on
{
	my ($shard, $map) = @_;
	return $c->sql("SELECT min(shardlet) FROM shardlet.shardlets WHERE map = '" . ($map // 'm') . "' AND shard = '$shard'");
}

# Lets a move come to a point.  Returns what lets it go on, and with an argument does no
# more; otherwise it returns the SQLSTATE of the end.
sub stop_at
{
	my ($shardlet, $to, $mode, $point, $more) = @_;
	my $name = 'go' . ++$number;
	$more = defined $more ? ",$more" : '';
	my $mark = $c->log_mark($c->router);
	my $session = $c->psql_begin("SET shardlet.fault = '$point:wait=$name$more'; CALL shardlet.move_shardlet($shardlet, '$to', '$mode')");

	for (1 .. 1000)
	{
		last if $c->log_since($c->router, $mark) =~ /fault \Q$point\E: /;
		die "$point was not reached" if $_ == 1000;
		sleep 0.05;
	}
	return sub {
		append_to_file($c->router->data_dir . "/$name", 'go');
		return if @_;
		my ($status, undef, $stderr) = $c->psql_end($session);
		return $c->sqlstate_of($status, $stderr);
	};
}

sub last_move
{
	my ($column) = @_;
	return $c->sql("SELECT $column FROM shardlet.moves ORDER BY move DESC LIMIT 1");
}

# Nothing is left of moves, and each shard has what it should.
sub is_clean
{
	my ($name) = @_;
	my @left = $c->sql(q{SELECT count(*) FROM shardlet.catalog_stray});
	for my $shard (1 .. 3)
	{
		push @left, $c->shard_sql($shard, q{SELECT (SELECT count(*) FROM pg_publication) + (SELECT count(*) FROM pg_subscription)
			+ (SELECT count(*) FROM pg_replication_slots) + (SELECT count(*) FROM pg_prepared_xacts)});
	}
	is("@left", '0 0 0 0', $name);
	return;
}

# TRUNCATE would take rows along that are on their way.
my $go = stop_at(shardlet_on('s1'), 's2', 'online', 'move_switch');
is($c->sqlstate('TRUNCATE t', node => $c->shard('s2')), 'SL003', 'TRUNCATE on the target');
is($c->sqlstate('TRUNCATE t'), 'SL003', 'TRUNCATE on the router');
is($go->(), '', 'the move goes on');
is($c->sql('SELECT count(*) FROM t'), '1000', 'no row is lost');
$go = stop_at(shardlet_on('s2'), 's1', 'online', 'move_follow', 'move_switch:error');
$c->sql(q{SELECT shardlet.alter_shard('s1', state => 'offline')});
$c->sql(q{SELECT shardlet.alter_shard('s1', state => 'online')});
is($c->sqlstate('TRUNCATE t', node => $c->shard('s1')), 'SL003', 'a shard that was offline knows of it');
is($go->(), '55000', 'the move is undone');
is($c->shard_sql('s1', 'SELECT count(*) FROM t'), '0', 'copied rows are removed');
is($c->sqlstate('TRUNCATE t', node => $c->shard('s1')), '', 'then TRUNCATE is not refused');
is($c->sql('SELECT count(*) FROM t'), '1000', 'no row is lost');
is_clean('nothing is left');

# The target stays one of the map.
$go = stop_at(shardlet_on('s2'), 's3', 'online', 'move_switch');
is($c->sqlstate(q{SELECT shardlet.alter_map('m', drop_shards => '{s3}')}), 'SL008', 'the target is not taken out of the map');
is($c->sqlstate(q{SELECT shardlet.drop_shard('s3')}), 'SL008', 'nor dropped');
is($go->(), '', 'the move goes on');
is($c->sql(q{SELECT count(*) FROM shardlet.query('m', 'SELECT k FROM t') AS (k bigint)}), '1000', 'all shards of the map are asked');
$go = stop_at(shardlet_on('s3'), 's1', 'read_only', 'move_remove');
is($c->sqlstate(q{SELECT shardlet.alter_map('m', drop_shards => '{s3}')}), 'SL008', 'nor is the source while it has rows');
is($go->(), '', 'the move goes on');
is($c->sqlstate(q{SELECT shardlet.alter_map('m', drop_shards => '{s3}')}), '', 'then it is');

# A target that is not online any more does not get the shardlet.
my $k = $c->sql(q{SELECT min(k) FROM t WHERE shardlet.route('m', k) = 's1'});
$go = stop_at(shardlet_on('s1'), 's2', 'read_only', 'move_switch');
$c->sql(q{SELECT shardlet.alter_shard('s2', state => 'offline')});
$go->('only');
ok($c->poll('SELECT count(*) FROM shardlet.moves WHERE open AND attempts > 0', '1'), 'a target that is offline is waited for');
is($c->sql("SELECT count(*) FROM t WHERE k = $k"), '1', 'the source is still the owner');
$c->sql(q{SELECT shardlet.alter_shard('s2', state => 'online')});
is($go->(), '', 'the move goes on when it is online');
is($c->sql('SELECT count(*) FROM t'), '1000', 'no row is lost');

# A slot of a spread map has a shard for itself, also while it is moved.
$c->sql(q{
	SELECT shardlet.create_map('sp', 'spread', shards => '{s1, s2}');
	CREATE TABLE log (id bigint);
	SELECT shardlet.distribute('log', 'sp');
	INSERT INTO log SELECT generate_series(1, 100)});
my ($lane, $other) = map { shardlet_on($_, 'sp') } qw(s1 s2);
$go = stop_at($lane, 's3', 'read_only', 'move_copy');
is($c->sqlstate("CALL shardlet.move_shardlet($other, 's3', 'read_only')"), 'SL008', 'no second lane is moved there');
is($c->sqlstate("SELECT shardlet.reassign($other, 's3')"), 'SL008', 'nor given to it');
is($go->(), '', 'the first goes on');
$go = stop_at($lane, 's1', 'read_only', 'move_remove');
is($c->sqlstate("CALL shardlet.move_shardlet($other, 's3', 'read_only')"), 'SL008', 'nor while the first leaves');
is($go->(), '', 'the first goes on');
is($c->sqlstate("CALL shardlet.move_shardlet($other, 's3', 'read_only')"), '', 'then it is moved');
is($c->sql('SELECT count(*) FROM log'), '100', 'no row is lost');
is($c->sqlstate("CALL shardlet.move_shardlet($other, 's2', 'read_only')"), '', 'and moved back');

# What the default of a list has does not grow under its move.
$c->sql(q{
	SELECT shardlet.create_map('li', 'list', shards => '{s1, s2, s3}');
	SELECT shardlet.assign_key('li', 's3', 5::bigint);
	SELECT shardlet.assign_default('li', 's1');
	CREATE TABLE lt (k bigint PRIMARY KEY);
	SELECT shardlet.distribute('lt', 'li', 'k');
	INSERT INTO lt SELECT generate_series(1, 4)});
my $key = shardlet_on('s3', 'li');
$go = stop_at(shardlet_on('s1', 'li'), 's2', 'online', 'move_switch');
is($c->sqlstate("SELECT shardlet.unassign($key)"), 'SL008', 'a key does not become one of the default');
is($c->sqlstate(q{SELECT shardlet.drop_shard('s3', force => true)}), 'SL008', 'nor with its shard');
$c->sql('INSERT INTO lt VALUES (5)');
is($go->(), '', 'the move goes on');
is($c->sql('SELECT count(*) FROM lt'), '5', 'no row is lost');
$c->sql("DELETE FROM lt WHERE k = 5; SELECT shardlet.unassign($key)");
is_clean('nothing is left');

# Online, all writers have to meet the guard; and no trigger may fire for moved rows.
my $one = shardlet_on('s2');
$c->shard_sql('s2', 'ALTER TABLE t DISABLE TRIGGER USER');
my ($status, undef, $stderr) = $c->psql_err("CALL shardlet.move_shardlet($one, 's1', 'online')");
is($c->sqlstate_of($status, $stderr), '55000', 'a table whose guard is disabled is not moved online');
like($stderr, qr/The guard of public.t on shard "s2" is missing or disabled.*HINT:  Run there: ALTER TABLE public.t ENABLE TRIGGER "!shardlet_guard"/s, 'with a hint');
$c->shard_sql('s2', 'ALTER TABLE t ENABLE TRIGGER USER');
$go = stop_at($one, 's1', 'online', 'move_switch');
$c->shard_sql('s2', 'ALTER TABLE t DISABLE TRIGGER "!shardlet_guard"');
is($go->(), '55000', 'nor if it is disabled meanwhile');
$c->shard_sql('s2', 'ALTER TABLE t ENABLE TRIGGER USER');
$c->shard_sql('s1', q{
	CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$fired$$; END';
	CREATE TRIGGER always AFTER INSERT ON t FOR EACH STATEMENT EXECUTE FUNCTION fired()});
for my $kind ('ALWAYS', 'REPLICA')
{
	$c->shard_sql('s1', "ALTER TABLE t ENABLE $kind TRIGGER always");
	($status, undef, $stderr) = $c->psql_err("CALL shardlet.move_shardlet($one, 's1', 'read_only')");
	is($c->sqlstate_of($status, $stderr), '55000', "no rows come to a table with a trigger of kind $kind");
	like($stderr, qr/Trigger always of public.t on shard "s1" .*HINT:  Run there: ALTER TABLE public.t ENABLE TRIGGER always/s, 'with a hint');
}
$c->shard_sql('s1', 'DROP FUNCTION fired CASCADE');

# A shard that owns nothing of the map must have no rows of it.
$c->sql(q{SELECT shardlet.alter_map('m', add_shards => '{s3}')});
$c->shard_sql('s3', 'SET session_replication_role = replica; INSERT INTO t SELECT generate_series(1, 100)');
is($c->sqlstate("CALL shardlet.move_shardlet($one, 's3', 'read_only')"), 'SL007', 'rows of the shardlet are found');
$c->shard_sql('s3', "SET session_replication_role = replica; TRUNCATE t; INSERT INTO t SELECT k FROM generate_series(1, 100) k WHERE "
	  . $c->sql("SELECT format('NOT (hashint8extended(k, 0) BETWEEN %s AND %s)', low, coalesce(high::numeric - 1, 9223372036854775807)) FROM shardlet.shardlets WHERE shardlet = $one"));
is($c->sqlstate("CALL shardlet.move_shardlet($one, 's3', 'read_only')"), 'SL006', 'and others');
$c->shard_sql('s3', 'SET session_replication_role = replica; TRUNCATE t');
$c->sql(q{SELECT shardlet.alter_map('m', drop_shards => '{s3}')});
is_clean('nothing is left');

# A target that is dropped by force: the move is undone without it.
$c->sql(q{SELECT shardlet.alter_map('li', drop_shards => '{s3}'); SELECT shardlet.alter_map('sp', drop_shards => '{s3}')});
$go = stop_at(shardlet_on('s2'), 's3', 'online', 'move_switch');
is($c->sqlstate(q{SELECT shardlet.drop_shard('s3')}), 'SL008', 'the target is not dropped');
is($c->sqlstate(q{SELECT shardlet.drop_shard('s3', force => true)}), '', 'but by force');
is($go->(), '55000', 'then the move is undone');
is(last_move('phase'), 'failed', 'and over');
is($c->sqlstate('CALL shardlet.resume_move(' . last_move('move') . ')'), '42704', 'it cannot be resumed');
is($c->sql('SELECT count(*) FROM t'), '1000', 'no row is lost');

# The router does not know what is on that shard now; the administrator cleans it up.
my $subscription = $c->shard_sql('s3', 'SELECT subname FROM pg_subscription');
$c->shard_sql('s3', $_) for "ALTER SUBSCRIPTION $subscription DISABLE", "ALTER SUBSCRIPTION $subscription SET (slot_name = NONE)",
  "DROP SUBSCRIPTION $subscription", 'DROP TABLE t, log, lt';
is_clean('nothing is left');

# A source that is dropped by force takes the shardlet along: copied rows are removed.
$c->sql("SELECT shardlet.add_shard('s3', '" . $c->conninfo('s3') . "')");
$c->sql(q{
	SELECT shardlet.create_map('ra', 'range', shards => '{s1, s2, s3}');
	SELECT shardlet.assign_range('ra', 's3', 0::bigint, 100::bigint), shardlet.assign_range('ra', 's2', 100::bigint, 200::bigint);
	CREATE TABLE rt (k bigint PRIMARY KEY);
	SELECT shardlet.distribute('rt', 'ra', 'k');
	INSERT INTO rt SELECT generate_series(0, 199)});
$go = stop_at(shardlet_on('s3', 'ra'), 's2', 'online', 'move_switch', 'move_lost:wait=lost');
is($c->shard_sql('s2', 'SELECT count(*) FROM rt'), '200', 'rows are copied');
is($c->sqlstate(q{SELECT shardlet.drop_shard('s3', force => true)}), '', 'the source is dropped by force');
$go->('only');
ok($c->poll('SELECT phase FROM shardlet.moves WHERE open', 'lost'), 'the move is given up');
is($c->sqlstate(q{SELECT shardlet.assign_range('ra', 's2', 0::bigint, 100::bigint)}), 'SL008', 'nobody gets its keys before that is done');
append_to_file($c->router->data_dir . '/lost', 'go');
is($go->(), '55000', 'it fails');
is($c->shard_sql('s2', 'SELECT count(*) FROM rt'), '100', 'copied rows are removed');
is($c->sqlstate(q{SELECT shardlet.assign_range('ra', 's2', 0::bigint, 100::bigint)}), '', 'the keys can be assigned again');
is($c->sqlstate('TRUNCATE rt', node => $c->shard('s2')), '', 'nothing is on its way any more');
$c->shard_sql('s3', $_) for 'SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots',
  (split /\n/, $c->shard_sql('s3', q{SELECT 'DROP PUBLICATION ' || pubname FROM pg_publication})), 'DROP TABLE rt';
is_clean('nothing is left');

# After the switch the source keeps what it has.
$c->sql("DROP TABLE rt; SELECT shardlet.drop_map('ra')");
$c->sql("SELECT shardlet.add_shard('s3', '" . $c->conninfo('s3') . "')");
$go = stop_at(shardlet_on('s2'), 's3', 'read_only', 'move_settle');
is($c->sqlstate(q{SELECT shardlet.drop_shard('s3', force => true)}), '', 'the new owner is dropped by force');
is($go->(), '55000', 'the move fails');
is($c->shard_sql('s2', 'SELECT count(*) FROM t'), '1000', 'rows stay');
is_clean('nothing is left');

done_testing();
