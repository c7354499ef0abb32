
# distribute() and undistribute() happen everywhere or nowhere, whatever dies
# (points distribute_before_rows, distribute_at_end, undistribute_at_end); roles and
# extensions that a shard lacks; a dump of the router has its tables.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2, router_conf => "shardlet.recovery_interval = 500ms\n");
my $router = $c->router;

$c->sql(q{SELECT shardlet.create_map('m');
	CREATE ROLE reader; CREATE ROLE owner;
	CREATE TYPE mood AS ENUM ('sad', 'happy');
	CREATE TABLE t (id bigserial, k bigint NOT NULL, feeling mood DEFAULT 'sad', v text, PRIMARY KEY (k, id));
	CREATE INDEX t_v ON t (v);
	GRANT SELECT ON t TO reader;
	ALTER TABLE t OWNER TO owner;
	INSERT INTO t (k, v) SELECT g, repeat('v', 500) || g FROM generate_series(1, 1000) g;
	CREATE VIEW vw AS SELECT k, length(v) AS l FROM t;
	CREATE TABLE before AS SELECT * FROM t});

my $same = q{SELECT count(*) FROM ((TABLE before EXCEPT ALL TABLE t) UNION ALL (TABLE t EXCEPT ALL TABLE before)) x};
my $kind = q{SELECT amname FROM pg_class c JOIN pg_am a ON a.oid = relam WHERE c.oid = 't'::regclass};

sub tables_on_shards
{
	return join ' ', map { $c->shard_sql($_, q{SELECT count(*) FROM pg_class WHERE relname = 't'}) } 1 .. 2;
}

sub wait_settled
{
	for (1 .. 300)
	{
		my $prepared = join ' ', map { $c->shard_sql($_, 'SELECT count(*) FROM pg_prepared_xacts') } 1 .. 2;
		return 1 if $prepared eq '0 0';
		select undef, undef, undef, 0.1;
	}
	return 0;
}

# $is_there: do the shards have the table?
sub check_state
{
	my ($is_there, $name) = @_;

	ok(wait_settled(), "$name: nothing is left prepared");
	is(tables_on_shards(), $is_there ? '1 1' : '0 0', "$name: tables of the shards");
	is($c->sql($kind), $is_there ? 'shardlet' : 'heap', "$name: the router's table");
	is($c->sql($same), '0', "$name: every row is there once");
	is($c->sql('SELECT count(*) FROM vw WHERE l > 0'), '1000', "$name: a view");
	return;
}

# The router dies in the middle, and with the decision made.
for my $point ('distribute_before_rows', 'distribute_at_end', 'txn_before_prepare', 'txn_after_all_prepares')
{
	is($c->sqlstate("SET shardlet.fault = '$point:stop'; SELECT shardlet.distribute('t', 'm', 'k')"), 'lost', "$point: the router dies");
	$c->start($router);
	check_state(0, $point);
}
is($c->sqlstate(q{SET shardlet.fault = 'distribute_at_end:error'; SELECT shardlet.distribute('t', 'm', 'k')}), 'XX000', 'an error at the end');
check_state(0, 'an error at the end');
is($c->sqlstate(q{SET shardlet.fault = 'txn_between_commits:stop'; SELECT shardlet.distribute('t', 'm', 'k')}), 'lost', 'the router dies between commits');
$c->start($router);
check_state(1, 'between commits');

for my $point ('undistribute_at_end', 'txn_after_all_prepares')
{
	is($c->sqlstate("SET shardlet.fault = '$point:stop'; SELECT shardlet.undistribute('t')"), 'lost', "$point: the router dies on the way back");
	$c->start($router);
	check_state(1, "$point, on the way back");
}
$c->sql(q{SELECT shardlet.undistribute('t')});
check_state(0, 'back');

# A shard that is dead, and one that dies while rows are on their way.
$c->kill9($c->shard(2));
is($c->sqlstate(q{SELECT shardlet.distribute('t', 'm', 'k')}), 'SL004', 'a dead shard');
$c->start($c->shard(2));
check_state(0, 'a dead shard');

# Roles of grants are created; the owner is not, and is left out with a notice.
my $notices = $c->psql_err(q{SELECT shardlet.distribute('t', 'm', 'k')});
like($notices, qr/NOTICE:.*role "owner" does not exist on shard "s1"/, 'the owner is missing');
is($c->shard_sql(2, q{SELECT rolcanlogin FROM pg_roles WHERE rolname = 'reader'}), 'f', 'a reader was missing');
check_state(1, 'roles');

# What the shards lack is said before anything happens.
$c->sql(q{CREATE COLLATION co (provider = libc, locale = 'C'); CREATE TABLE f (k bigint PRIMARY KEY, c text COLLATE co)});
is($c->sqlstate(q{SELECT shardlet.distribute('f', 'm', 'k')}), '42704', 'a collation that shards lack');

$c->destroy;
done_testing();
