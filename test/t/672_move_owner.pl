
# What a table runs for each of its rows is run as its owner while rows are moved, never as
# the superuser who moves them: expressions of indexes, checks, generated columns, domains
# and triggers.  Where that is not possible, the move is refused.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep);

my $c = ShardletCluster->new(shards => 2, router_conf => "shardlet.recovery_interval = 300ms\nlog_statement = none\n",
	shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");
my $is_old = $c->shard(1)->pg_version < 16;

# Says who runs it, and tries to become another user first.  An index takes only what says
# of itself that it computes a value.
my $functions = q{
	CREATE ROLE alice LOGIN;
	GRANT CREATE ON SCHEMA public TO alice;
	CREATE TABLE whoami (name text);
	GRANT ALL ON whoami TO public;
	CREATE FUNCTION public.note() RETURNS int LANGUAGE plpgsql VOLATILE AS $$
	BEGIN
		BEGIN
			EXECUTE 'RESET ROLE';
		EXCEPTION WHEN OTHERS THEN
			NULL;
		END;
		BEGIN
			EXECUTE 'RESET SESSION AUTHORIZATION';
		EXCEPTION WHEN OTHERS THEN
			NULL;
		END;
		INSERT INTO public.whoami VALUES (current_user);
		RETURN 1;
	END $$;
	CREATE FUNCTION public.spy(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN PERFORM public.note(); RETURN i; END';
	CREATE FUNCTION public.watch() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM public.note(); RETURN NULL; END';
	ALTER FUNCTION public.note() OWNER TO alice;
	ALTER FUNCTION public.spy(int) OWNER TO alice;
	ALTER FUNCTION public.watch() OWNER TO alice};

$c->sql($functions);
$c->shard_sql($_, $functions) for 1, 2;

# Tables that alice has made on the shards, and the router has adopted.
my %tables = (
	index => 'CREATE TABLE t (k bigint PRIMARY KEY, v int); CREATE INDEX ON t ((spy(v)))',
	predicate => 'CREATE TABLE t (k bigint PRIMARY KEY, v int); CREATE INDEX ON t (v) WHERE spy(v) > 0',
	check => 'CREATE TABLE t (k bigint PRIMARY KEY, v int CHECK (spy(v) > 0))',
	generated => 'CREATE TABLE t (k bigint PRIMARY KEY, v int, g int GENERATED ALWAYS AS (spy(v)) STORED)',
	domain => 'CREATE DOMAIN watched AS int CHECK (spy(VALUE) > 0); CREATE TABLE t (k bigint PRIMARY KEY, v watched)',
	partition => 'CREATE TABLE t (k bigint, v int, PRIMARY KEY (k)) PARTITION BY HASH (k); CREATE TABLE t_0 PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0); CREATE INDEX ON t_0 ((spy(v)))');
my $shardlet;

sub make_table
{
	my ($kind) = @_;
	my $sql = "SET ROLE alice; $tables{$kind}";

	$c->sql(q{SELECT shardlet.create_map('m', shards => '{s1, s2}', shardlets => 2)});
	$c->sql('SET ROLE alice; CREATE DOMAIN watched AS int CHECK (spy(VALUE) > 0)') if $kind eq 'domain';
	$c->shard_sql($_, $sql) for 1, 2;
	$c->sql(q{SELECT shardlet.attach('public.t', 'm', 'k')});
	$c->sql('INSERT INTO t SELECT i, i FROM generate_series(1, 50) i');
	$shardlet = $c->sql(q{SELECT min(shardlet) FROM shardlet.shardlets WHERE map = 'm'});
	$c->shard_sql($_, 'TRUNCATE whoami') for 1, 2;
	return;
}

sub drop_table
{
	my ($kind) = @_;

	is($c->sql('SELECT count(*), sum(v) FROM t'), '50|1275', "$kind: all rows are there");
	$c->sql(q{SELECT shardlet.detach('t'); DROP TABLE IF EXISTS t; SELECT shardlet.drop_map('m'); DROP DOMAIN IF EXISTS watched});
	$c->shard_sql($_, 'DROP TABLE t; DROP DOMAIN IF EXISTS watched') for 1, 2;
	return;
}

sub owner
{
	return $c->sql("SELECT shard FROM shardlet.shardlets WHERE shardlet = $shardlet");
}

sub other
{
	return owner() eq 's1' ? 's2' : 's1';
}

# As whom something ran on either shard.
sub names
{
	my %names = map { $_ => 1 } map { split /\n/, $c->shard_sql($_, 'SELECT DISTINCT name FROM whoami') } 1, 2;
	return join ' ', sort keys %names;
}

for my $kind (sort keys %tables)
{
	make_table($kind);
	is($c->sqlstate("CALL shardlet.move_shardlet($shardlet, '@{[other()]}', 'read_only')"), '', "$kind: moved");
	is(names(), 'alice', "$kind: everything was run as the owner");
	my ($status, undef, $stderr) = $c->psql_err("CALL shardlet.move_shardlet($shardlet, '@{[other()]}')");
	is($c->sqlstate_of($status, $stderr), $is_old ? '42501' : '', "$kind: online");
	like($stderr, qr/cannot be moved online.*Function public\.spy\(integer\), which .* on shard "s\d" calls, would be run as a superuser.*HINT:  Use mode "read_only"/s, "$kind: with the way round") if $is_old;
	unlike(names(), qr/postgres/, "$kind: nothing was run as a superuser");
	drop_table($kind);
}

# A function of a superuser's is trusted.
make_table('index');
$c->shard_sql($_, 'ALTER FUNCTION spy(int) OWNER TO CURRENT_USER') for 1, 2;
is($c->sqlstate("CALL shardlet.move_shardlet($shardlet, '@{[other()]}')"), '', 'a function of a superuser, online');
$c->shard_sql($_, 'ALTER FUNCTION spy(int) OWNER TO alice') for 1, 2;
drop_table('trusted');

# What comes while the move is under way.
$tables{plain} = 'CREATE TABLE t (k bigint PRIMARY KEY, v int)';
make_table('plain');
sub meanwhile
{
	my ($mode, $point, $what) = @_;
	my $mark = $c->log_mark($c->router);
	my $file = "go_${mode}_$point";
	my $session = $c->psql_begin("SET shardlet.fault = '$point:wait=$file'; CALL shardlet.move_shardlet($shardlet, '@{[other()]}', '$mode')");

	for (1 .. 600)
	{
		last if $c->log_since($c->router, $mark) =~ /fault \Q$point\E: /;
		sleep 0.1;
	}
	$what->();
	append_to_file($c->router->data_dir . "/$file", 'go');
	my ($status, undef, $stderr) = $c->psql_end($session);
	is($c->sqlstate_of($status, $stderr), '', "$mode, $point: the move ends") or diag($stderr);
	return;
}
meanwhile('online', 'move_follow', sub {
	is($c->sqlstate('CREATE INDEX t_spy ON t ((spy(v)))'), $is_old ? 'SL008' : '', 'an index that comes during an online move');
	is($c->sqlstate('ALTER TABLE t ADD CHECK (spy(v) > 0)'), $is_old ? 'SL008' : '', 'a constraint');
	is($c->sqlstate('CREATE INDEX t_v ON t (abs(v))'), '', 'others are welcome');
	$c->shard_sql($_, 'TRUNCATE whoami') for 1, 2;
	$c->shard_sql(owner(), 'SET ROLE alice; UPDATE t SET v = v');
});
unlike(names(), qr/postgres/, 'nothing was run as a superuser') if !$is_old;
$c->shard_sql($_, 'TRUNCATE whoami') for 1, 2;
meanwhile('read_only', 'move_remove', sub {
	$c->shard_sql($_, 'SET ROLE alice; CREATE TRIGGER spied AFTER DELETE OR TRUNCATE ON t EXECUTE FUNCTION watch(); ALTER TABLE t ENABLE ALWAYS TRIGGER spied') for 1, 2;
});
is(names(), 'alice', 'a trigger that comes before rows are removed');
$c->shard_sql($_, 'DROP TRIGGER spied ON t') for 1, 2;
drop_table('meanwhile');

# Nor is what takes the place of a table.
make_table('plain');
{
	my $source = owner();
	my $mark = $c->log_mark($c->router);
	my $session = $c->psql_begin("SET shardlet.fault = 'move_wait_done:wait=view'; CALL shardlet.move_shardlet($shardlet, '@{[other()]}', 'read_only')");

	for (1 .. 600)
	{
		last if $c->log_since($c->router, $mark) =~ /fault move_wait_done: /;
		sleep 0.1;
	}
	$c->shard_sql($source, 'SET ROLE alice; ALTER TABLE t RENAME TO hidden; CREATE VIEW t AS SELECT k, v + note() - 1 AS v FROM hidden');
	append_to_file($c->router->data_dir . '/view', 'go');
	like(($c->psql_end($session))[2], qr/move \d+ was undone.*access to non-system view "t" is restricted/s, 'a view instead of a table');
	is(names(), '', 'is not read');
	$c->shard_sql($source, 'DROP VIEW t; ALTER TABLE hidden RENAME TO t');
}
drop_table('view');

# A shard without the extension cannot do that.
$c->shard(2)->safe_psql('postgres', 'CREATE DATABASE bare');
$c->shard(2)->safe_psql('bare', ($functions =~ s/CREATE ROLE alice LOGIN;//r) . ';' . "SET ROLE alice; $tables{index}");
(my $conninfo = $c->conninfo(2)) =~ s/dbname=app/dbname=bare/;
$c->sql("SELECT shardlet.add_shard('s3', '$conninfo', install => false)");
make_table('index');
$c->sql(q{SELECT shardlet.alter_map('m', add_shards => '{s3}')});
my ($status, undef, $stderr) = $c->psql_err("CALL shardlet.move_shardlet($shardlet, 's3', 'read_only')");
is($c->sqlstate_of($status, $stderr), '42501', 'a shard without the extension');
like($stderr, qr/rows of table "t" cannot be moved.*Function public\.spy\(integer\), which index \S+ on shard "s3" calls/s, 'is refused');
is($c->shard(2)->safe_psql('bare', 'SELECT count(*) FROM whoami'), '0', 'before anything is run');

done_testing();
