
# DDL on a sharded table happens on the router and on all shards or nowhere,
# whatever dies; roles that a shard lacks; and what is not ours stays away from shards.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 3, router_conf => "shardlet.recovery_interval = 500ms\n");

$c->sql(q{SELECT shardlet.create_map('m');
	CREATE TABLE t (k bigint NOT NULL, v int);
	SELECT shardlet.distribute('t', 'm', 'k')});

my $columns_sql = q{SELECT string_agg(attname, ',' ORDER BY attname) FROM pg_attribute
	WHERE attrelid = to_regclass('public.t') AND attnum > 0 AND NOT attisdropped};

# Columns on the router, and on each shard by itself: one text if all agree.
sub columns
{
	my %seen = map { $_ => 1 } $c->sql($columns_sql), map { $c->shard_sql($_, $columns_sql) } 1 .. 3;
	return join ' / ', sort keys %seen;
}

sub settled
{
	my $prepared = join ' ', map { $c->shard_sql($_, 'SELECT count(*) FROM pg_prepared_xacts') } 1 .. 3;
	return $prepared eq '0 0 0';
}

sub wait_settled
{
	for (1 .. 300)
	{
		return 1 if settled();
		select undef, undef, undef, 0.1;
	}
	return 0;
}

is(columns(), 'k,v', 'as it was made');
$c->sql('BEGIN; ALTER TABLE t ADD a int; CREATE INDEX t_v ON t (v); DROP TABLE t; ROLLBACK');
is(columns(), 'k,v', 'rolled back everywhere');
is($c->shard_sql(1, q{SELECT to_regclass('t_v')}), '', 'no index is left');

# A shard that cannot be reached, and one that dies meanwhile.
$c->kill9($c->shard(2));
is($c->sqlstate('ALTER TABLE t ADD a int'), 'SL004', 'ALTER TABLE with a dead shard');
is($c->sqlstate('CREATE INDEX t_v ON t (v)'), 'SL004', 'CREATE INDEX with a dead shard');
is($c->sqlstate('DROP TABLE t'), 'SL004', 'DROP TABLE with a dead shard');
is($c->sqlstate('GRANT SELECT ON t TO PUBLIC'), 'SL004', 'GRANT with a dead shard');
is($c->sqlstate('CREATE TABLE l (a int); CREATE INDEX l_a ON l (a); ALTER TABLE l ADD b int; GRANT SELECT ON l TO PUBLIC; DROP INDEX l_a; DROP TABLE l'),
	'', 'tables of the router do without');
$c->start($c->shard(2));
is(columns(), 'k,v', 'nothing has changed anywhere');
is(join(' ', map { $c->shard_sql($_, q{SELECT to_regclass('t_v') IS NULL AND relacl IS NULL FROM pg_class WHERE relname = 't'}) } 1 .. 3), 't t t', 'nor indexes and privileges');

my $session = $c->psql_begin(q{BEGIN; ALTER TABLE t ADD a int; SELECT pg_sleep(2); COMMIT});
$c->poll(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND wait_event = 'PgSleep'});
$c->kill9($c->shard(3));
my ($status, undef, $stderr) = $c->psql_end($session);
isnt($c->sqlstate_of($status, $stderr), '', 'a shard died in the transaction');
$c->start($c->shard(3));
ok(wait_settled(), 'nothing is left prepared');
is(columns(), 'k,v', 'and nothing has changed');

# The router dies on its way to the commit.
my %expected = map { $_ => 1 } qw(k v);
for my $case ([ txn_before_prepare => 0 ], [ txn_after_some_prepares => 0 ], [ txn_after_all_prepares => 0 ],
	[ txn_before_commit_record => 0 ], [ txn_after_commit_record => 1 ], [ txn_between_commits => 1 ])
{
	my ($point, $happens) = @$case;

	$expected{$point} = 1 if $happens;
	is($c->sqlstate("SET shardlet.fault = '$point:stop'; ALTER TABLE t ADD $point int DEFAULT 1"), 'lost', "$point: the router dies");
	$c->start($c->router);
	ok(wait_settled(), "$point: nothing is left prepared");
	is(columns(), join(',', sort keys %expected), "$point: " . ($happens ? 'done' : 'not done') . ' everywhere');
}
is($c->sqlstate(q{SET shardlet.fault = 'txn_between_commits:stop'; DROP TABLE t}), 'lost', 'DROP TABLE: the router dies');
$c->start($c->router);
ok(wait_settled(), 'DROP TABLE: nothing is left prepared');
is(columns(), '', 'DROP TABLE: dropped everywhere');

# Roles are each server's own.
$c->sql(q{CREATE TABLE t (k bigint NOT NULL, v int);
	SELECT shardlet.distribute('t', 'm', 'k');
	CREATE ROLE anna; CREATE ROLE ben; CREATE ROLE cleo});
$c->shard_sql($_, 'CREATE ROLE anna; CREATE ROLE cleo') for 1, 3;
$c->shard_sql(1, 'CREATE ROLE ben');
($status, undef, $stderr) = $c->psql_err('GRANT SELECT ON t TO anna, ben, PUBLIC');
is($status, 0, 'GRANT to roles that some shards lack');
like($stderr, qr/NOTICE:  00000: role "anna" was created on shard "s2", without LOGIN/, 'one of them');
like($stderr, qr/NOTICE:  00000: role "ben" was created on shard "$_"/, "the other on $_") for 's2', 's3';
is(join(' ', map { $c->shard_sql($_, q{SELECT count(*) FROM pg_class, aclexplode(relacl) a WHERE relname = 't' AND a.grantee <> relowner}) } 1 .. 3), '3 3 3', 'all have got it');
($status, undef, $stderr) = $c->psql_err('ALTER TABLE t OWNER TO cleo, ADD w int');
like($stderr, qr/NOTICE:  00000: role "cleo" does not exist on shard "s2"/, 'OWNER TO');
is(join(' ', map { $c->shard_sql($_, q{SELECT pg_get_userbyid(relowner) = 'cleo' FROM pg_class WHERE relname = 't'}) } 1 .. 3), 't f t', 'owners');
is(columns(), 'k,v,w', 'and the rest of the statement');

# What is not ours never goes to a shard.
sub words
{
	my ($query) = @_;
	my @marks = map { $c->log_mark($c->shard($_)) } 1 .. 3;

	$c->sql($query);
	return scalar map { grep { /LOG:  (?:statement|execute [^:]*): (?:ALTER|CREATE|COMMENT|DO|DROP|GRANT|LOCK|REINDEX)\b/ } split /\n/, $c->log_since($c->shard($_), $marks[ $_ - 1 ]) } 1 .. 3;
}
isnt(words('ALTER TABLE t SET (fillfactor = 90)'), 0, 'a table of ours');
is(words(q{CREATE TABLE l (a int); ALTER TABLE l ADD b int DEFAULT 1; CREATE INDEX l_a ON l (a); COMMENT ON INDEX l_a IS 'x'; COMMENT ON TABLE l IS 'x';
	GRANT SELECT ON l TO anna; CREATE TYPE e AS ENUM ('a'); ALTER TYPE e ADD VALUE 'b'; ALTER TABLE l RENAME TO l2; REINDEX TABLE l2; BEGIN; LOCK TABLE l2; COMMIT;
	ALTER INDEX l_a RENAME TO l_b; DROP INDEX l_b; DROP TABLE l2; DROP TYPE e; CREATE SCHEMA sc; ALTER SCHEMA sc RENAME TO sd; DROP SCHEMA sd}), 0, 'a table of the router');

done_testing();
