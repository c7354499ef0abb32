
# Statistics of distributed tables come by themselves, also while a shard is down, and no process waits for that.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep time);

my $c = ShardletCluster->new(
	shards => 2,
	router_conf => "shardlet.analyze_interval = 300ms\nautovacuum_analyze_threshold = 50\nautovacuum_naptime = 1s\n");
my $router = $c->router;

$c->sql(q{
	SELECT shardlet.create_map('m', shards => '{s1,s2}');
	CREATE TABLE t (id bigint PRIMARY KEY, n int);
	CREATE TABLE p (id bigint, day int, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
	CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
	CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20);
	CREATE TABLE still (id bigint PRIMARY KEY) WITH (autovacuum_enabled = off);
	CREATE TABLE lazy (id bigint PRIMARY KEY) WITH (autovacuum_analyze_threshold = 5000);
	CREATE TABLE one (id bigint PRIMARY KEY, n int);
	CREATE TABLE other (id bigint PRIMARY KEY);
	SELECT shardlet.distribute(tbl, 'm', 'id') FROM unnest('{t,p,still,lazy}'::regclass[]) tbl;
	SELECT shardlet.place('one', 's1'), shardlet.place('other', 's2');
	INSERT INTO t SELECT g, g % 5 FROM generate_series(1, 1000) g;
	INSERT INTO p SELECT g, g % 20 FROM generate_series(1, 500) g;
	INSERT INTO still SELECT generate_series(1, 1000);
	INSERT INTO lazy SELECT generate_series(1, 1000);
	INSERT INTO one SELECT g, 1 FROM generate_series(1, 200) g;
});

sub rows { return "SELECT reltuples FROM pg_class WHERE oid = '$_[0]'::regclass" }

# Never analyzed, and rows.
ok($c->poll('SELECT (' . rows('t') . ') = 1000 AND (' . rows('p') . ') = 500 AND (' . rows('one') . ') = 200'), 'tables get statistics');
is($c->sql(q{SELECT attname, n_distinct FROM pg_stats WHERE tablename = 't' ORDER BY 1}), "id|-1\nn|5", 'of their columns');
ok($c->poll('SELECT (' . rows('lazy') . ') = 1000'), 'whatever the threshold');

# The threshold, of the server and of the table.
$c->sql(q{INSERT INTO t SELECT g, g FROM generate_series(2001, 3000) g; INSERT INTO lazy SELECT generate_series(2001, 3000)});
ok($c->poll('SELECT (' . rows('t') . ') = 2000'), 'they follow changes');
ok($c->poll(q{SELECT n_distinct NOT IN (5) FROM pg_stats WHERE tablename = 't' AND attname = 'n'}), 'and so do the columns');
$c->sql('UPDATE one SET n = id');
ok($c->poll(q{SELECT n_distinct = -1 FROM pg_stats WHERE tablename = 'one' AND attname = 'n'}), 'updates count');
$c->shard_sql(1, 'DELETE FROM one WHERE id > 20');
ok($c->poll('SELECT (' . rows('one') . ') = 20'), 'and what is done on a shard directly');
is($c->sql(rows('lazy')), '1000', 'a table with another threshold is not analyzed');
is($c->sql(rows('still')), '-1', 'nor one without autovacuum');
is($c->sql(rows('other')), '-1', 'nor one without rows');

# A shard is down, then offline: tables of others are analyzed, and no process stays.
$c->kill9($c->shard(2));
for my $state (qw(online offline))
{
	my $rows = $c->sql('SELECT count(*) FROM one');

	$c->sql(q{SELECT shardlet.alter_shard('s2', state => 'offline')}) if $state eq 'offline';
	$c->sql('INSERT INTO one SELECT coalesce(max(id), 0) + g, 0 FROM one, generate_series(1, 500) g GROUP BY g');
	ok($c->poll('SELECT (' . rows('one') . ") = $rows + 500"), "a shard is down and $state: tables of other shards");
	ok($c->poll(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'shardlet statistics'}), 'no process waits');
}
is($c->sql(rows('t')), '2000', 'what is known of others stays');
$c->start($c->shard(2));
$c->sql(q{SELECT shardlet.alter_shard('s2', state => 'online')});
$c->sql('INSERT INTO t SELECT g, g FROM generate_series(5001, 6000) g');
ok($c->poll('SELECT (' . rows('t') . ') = 3000'), 'it is back');

# A shard that hangs does not hold up the others for long, nor a table that is locked.
my $lock = $c->psql_begin('BEGIN; LOCK TABLE t; SELECT pg_sleep(4); COMMIT');
$c->poll(q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 't'::regclass AND mode = 'AccessExclusiveLock'});
$c->sql('INSERT INTO one SELECT coalesce(max(id), 0) + g, 0 FROM one, generate_series(1, 2000) g GROUP BY g');
ok($c->poll('SELECT (' . rows('one') . ') > 2500'), 'a table is locked: others are analyzed');
$c->psql_end($lock);

# Tables that the shards had, and tables that are gone.
$c->shard_sql($_, 'CREATE TABLE adopted (id bigint PRIMARY KEY); INSERT INTO adopted SELECT generate_series(1, 100)') for 1;
$c->sql(q{SELECT shardlet.attach('adopted', shard => 's1')});
ok($c->poll('SELECT (' . rows('adopted') . ') = 100'), 'an attached table');
$c->sql('DROP TABLE one');
ok($c->poll('SELECT count(*) = 0 FROM shardlet.catalog_analyzed a WHERE NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = a.relid)'), 'counts of a dropped table are removed');

# Not at all.
$c->sql('ALTER SYSTEM SET shardlet.analyze_interval = 0');
$c->sql('SELECT pg_reload_conf()');
sleep 1;
$c->sql('INSERT INTO t SELECT g, g FROM generate_series(10001, 20000) g');
sleep 2;
is($c->sql(rows('t')), '3000', 'the setting turns it off');

$c->destroy;
done_testing();
