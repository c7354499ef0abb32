
# Texts while shardlets of every kind of map are moved: the shards leave out what
# does not count, also for those who may not read a table, but a view of it.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2, router_conf => "shardlet.recovery_interval = 300ms\nlog_statement = none\n", shard_conf => "log_statement = none\n");
my $folder = PostgreSQL::Test::Utils::tempdir;

$c->sql(q{SELECT shardlet.create_map('h2', 'hash', '{text, date}', '{s1, s2}', shardlets => 2);
	SELECT shardlet.create_map('ra', 'range', '{text}', '{s1, s2}'), shardlet.create_map('ra_via', 'range', '{bigint}', '{s1, s2}', via => '$1 / 10');
	SELECT shardlet.create_map('li', 'list', '{text, int}', '{s1, s2}'), shardlet.create_map('li_via', 'list', '{text}', '{s1, s2}', via => 'lower(left($1, 1))');
	SELECT shardlet.assign_range('ra', 's1', NULL, 'm'), shardlet.assign_range('ra', 's2', 'm', NULL),
		shardlet.assign_range('ra_via', 's1', NULL, 5), shardlet.assign_range('ra_via', 's2', 5, NULL),
		shardlet.assign_key('li', 's1', 'n', 1), shardlet.assign_default('li', 's2'),
		shardlet.assign_keys('li_via', 's1', '{a,b}'::text[]), shardlet.assign_default('li_via', 's2');
	CREATE TABLE t_h2 (a varchar(9) NOT NULL, b date NOT NULL, c int); CREATE TABLE t_ra (a text NOT NULL, b int); CREATE TABLE t_ra_via (a int NOT NULL, b int);
	CREATE TABLE t_li (a text NOT NULL, b smallint NOT NULL, c int); CREATE TABLE t_li_via (a text NOT NULL, b int);
	SELECT shardlet.distribute('t_h2', 'h2', 'a, b'), shardlet.distribute('t_ra', 'ra', 'a'), shardlet.distribute('t_ra_via', 'ra_via', 'a'),
		shardlet.distribute('t_li', 'li', 'a, b'), shardlet.distribute('t_li_via', 'li_via', 'a');
	INSERT INTO t_h2 SELECT i, '2024-01-01', i FROM generate_series(1, 100) i;
	INSERT INTO t_ra SELECT chr(96 + i), i FROM generate_series(1, 26) i;
	INSERT INTO t_ra_via SELECT i, i FROM generate_series(1, 100) i;
	INSERT INTO t_li SELECT chr(96 + i), 1, i FROM generate_series(1, 26) i;
	INSERT INTO t_li_via SELECT chr(64 + i), i FROM generate_series(1, 26) i});
my %rows = (h2 => 100, ra => 26, ra_via => 100, li => 26, li_via => 26);
$c->sql('CREATE ROLE viewer LOGIN SUPERUSER');
for my $shard (qw(s1 s2))
{
	$c->shard_sql($shard, 'CREATE ROLE viewer LOGIN');
	$c->shard_sql($shard, "CREATE VIEW v_$_ AS SELECT 'row' AS v FROM t_$_; GRANT SELECT ON v_$_ TO viewer") for keys %rows;
	$c->sql("CREATE USER MAPPING FOR viewer SERVER $shard OPTIONS (user 'viewer')");
}
for my $map (sort keys %rows)
{
	for my $from ('s1', 's2')
	{
		my $moving = $c->sql("SELECT min(shardlet) FROM shardlet.shardlets WHERE map = '$map' AND shard = '$from'");
		my $other = $from eq 's1' ? 's2' : 's1';
		my $path = "$folder/$map$from";
		my $mover = $c->psql_begin("SET shardlet.fault = 'move_settle:wait=$path'; CALL shardlet.move_shardlet($moving, '$other', 'read_only')");
		$c->poll('SELECT phase FROM shardlet.moves WHERE open', 'settle');
		is($c->sql("SELECT count(*) FROM shardlet.query('$map', 'SELECT a FROM t_$map') AS q(a text)"), $rows{$map}, "map $map, from $from");
		is($c->sql("SET SESSION AUTHORIZATION viewer; SELECT count(*) FROM shardlet.query('$map', 'SELECT v FROM v_$map') AS q(a text)"), $rows{$map}, "map $map, through a view");
		is($c->sqlstate("SET SESSION AUTHORIZATION viewer; SELECT count(*) FROM shardlet.query('$map', 'SELECT a FROM t_$map') AS q(a text)"), '42501', "map $map, without a right");
		append_to_file($path, 'go');
		my ($end, undef, $error) = $c->psql_end($mover);
		is($c->sqlstate_of($end, $error), '', "map $map: the move goes on");
	}
}

done_testing();
