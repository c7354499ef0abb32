# Objects follow the tables that need them, where each shard is a server with roles of its own: what the user of the
# user mapping may do there, whom a function belongs to, roles of grants and policies, shards that join, a bare shard.

use strict;
use warnings;

use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 3, add => 0);
my $router = $c->router;

for my $shard (1, 2, 3)
{
	$c->shard_sql($shard, q{
		CREATE ROLE app LOGIN SUPERUSER PASSWORD 'app-pw';
		CREATE ROLE carol LOGIN PASSWORD 'carol-pw';
		CREATE ROLE weak LOGIN PASSWORD 'weak-pw';
		GRANT CREATE ON DATABASE app TO carol, weak});
	unlink $c->shard($shard)->data_dir . '/pg_hba.conf';
	$c->shard($shard)->append_conf('pg_hba.conf',
		"local all all trust\nhost all app,carol,weak 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust");
	$c->shard($shard)->reload;
}
my @conninfo = map { 'host=127.0.0.1 dbname=app port=' . $c->shard($_)->port } 1 .. 3;
$c->sql(qq{
	CREATE EXTENSION shardlet;
	CREATE ROLE carol; CREATE ROLE dave; CREATE ROLE eve; CREATE ROLE walt; CREATE ROLE reader; CREATE ROLE "Odd reader"; CREATE ROLE other; CREATE ROLE third;
	SELECT shardlet.add_shard('s1', '$conninfo[0]');
	SELECT shardlet.add_shard('s2', '$conninfo[1]', install => false);
	SELECT shardlet.create_map('m');
	CREATE USER MAPPING FOR PUBLIC SERVER shardlet_tables OPTIONS (user 'app', password 'app-pw');
	CREATE USER MAPPING FOR carol SERVER shardlet_tables OPTIONS (user 'carol', password 'carol-pw');
	CREATE USER MAPPING FOR walt SERVER shardlet_tables OPTIONS (user 'weak', password 'weak-pw');
	GRANT USAGE ON SCHEMA shardlet TO PUBLIC;
	GRANT USAGE ON FOREIGN SERVER shardlet_tables TO carol, eve, walt;
	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA shardlet TO carol, eve, walt;
	CREATE SCHEMA x;
	GRANT ALL ON SCHEMA x TO carol, dave, eve, walt});

# The messages of a statement, without what is only noise.
sub messages
{
	my ($sql) = @_;
	my (undef, undef, $stderr) = $c->psql_err($sql);
	return join "\n", grep { !/^(LOCATION|NOTICE:  drop|DETAIL:  drop|drop cascades)/ } map { s/^psql:\S+ //r } split /\n/, $stderr;
}
sub as_user { my ($user, $sql) = @_; return messages("SET ROLE $user; SET search_path = x; $sql") }
sub everywhere { my ($sql) = @_; return join ' ', map { $c->shard_sql($_, $sql) } 1, 2 }

# Roles: created without LOGIN on both shards, also the bare one.
$c->sql(q{
	CREATE TABLE x.t (k bigint PRIMARY KEY, n int);
	GRANT SELECT ON x.t TO reader;
	SELECT shardlet.distribute('x.t', 'm', 'k')});
is(everywhere(q{SELECT rolcanlogin::text || rolsuper::text || has_table_privilege('reader', 'x.t', 'SELECT') FROM pg_roles WHERE rolname = 'reader'}),
	'falsefalsetrue falsefalsetrue', 'a role of a grant is created with the table');
like(messages('GRANT INSERT ON x.t TO "Odd reader"'), qr/NOTICE: .*role "Odd reader" was created on shard "s1", without LOGIN/, 'GRANT says so');
is(everywhere(q{SELECT has_table_privilege('Odd reader', 'x.t', 'INSERT')}), 't t', 'GRANT to a role that the shards lacked');
$c->sql(q{CREATE POLICY p ON x.t TO other USING (k > 0)});
is(everywhere(q{SELECT count(*) FROM pg_policies WHERE roles = '{other}'}), '1 1', 'a policy to a role that the shards lacked');
like(messages('REVOKE INSERT ON x.t FROM third'), qr/role "third" does not exist on shard/, 'REVOKE creates no role');
is($c->sql(q{SELECT string_agg(object || ' ' || shards::text, ', ' ORDER BY object) FROM shardlet.objects WHERE kind = 'role'}),
	'Odd reader {s1,s2}, other {s1,s2}, reader {s1,s2}', 'roles are listed');
$c->sql('ALTER ROLE reader RENAME TO renamed');
is($c->sql(q{SELECT count(*) FROM shardlet.objects WHERE object = 'reader'}), '1', 'a role keeps its name on the shards');
$c->sql('ALTER ROLE renamed RENAME TO reader');
$c->sql(q{BEGIN; GRANT SELECT ON x.t TO third; ROLLBACK});
is(everywhere(q{SELECT count(*) FROM pg_roles WHERE rolname = 'third'}), '1 1', 'a role outlives ROLLBACK');
is(everywhere(q{SELECT has_table_privilege('third', 'x.t', 'SELECT')}), 'f f', 'its privileges do not');

# carol is carol on the shards, and no superuser there.
like(as_user('carol', 'CREATE TABLE c (k bigint PRIMARY KEY, n int)'), qr/^$/, 'a table of carol');
$c->shard_sql($_, 'GRANT ALL ON SCHEMA x TO carol') for 1, 2;
is(as_user('carol', q{
	CREATE FUNCTION of_carol(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER AS 'BEGIN RETURN $1 > 0; END';
	CREATE TYPE carols AS ENUM ('a');
	SELECT shardlet.distribute('c', 'm', 'k');
	CREATE FUNCTION tr() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.n := 7; RETURN NEW; END';
	CREATE TRIGGER tr BEFORE INSERT ON c FOR EACH ROW EXECUTE FUNCTION tr();
	ALTER TABLE c ADD COLUMN e carols}), '', 'she has functions and types created');
is(everywhere(q{SELECT string_agg(proname || ' ' || pg_get_userbyid(proowner), ', ') FROM pg_proc WHERE pronamespace = 'x'::regnamespace}),
	'tr carol tr carol', 'they are hers');
like(as_user('carol', 'GRANT SELECT ON c TO walt'), qr/NOTICE: .*role "walt" does not exist on shard .*, which is left as it is/,
	'a user mapping that may not create roles');
is(as_user('carol', q{CREATE OR REPLACE FUNCTION tr() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.n := 8; RETURN NEW; END'}), '', 'and changes them');
is($c->sql('SET ROLE carol; INSERT INTO x.c VALUES (1) RETURNING n'), '8', 'the new body runs');
unlike(as_user('carol', 'DROP FUNCTION tr() CASCADE'), qr/ERROR/, 'and drops them');
is(everywhere(q{SELECT count(*) FROM pg_proc WHERE pronamespace = 'x'::regnamespace}), '0 0', 'everywhere');

# A function of dave that runs as dave cannot become dave's by her hand.
$c->sql(q{
	CREATE FUNCTION x.of_dave() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN NEW.n := 9; RETURN NEW; END';
	ALTER FUNCTION x.of_dave() OWNER TO dave});
like(as_user('carol', 'CREATE TRIGGER d BEFORE INSERT ON c FOR EACH ROW EXECUTE FUNCTION of_dave()'),
	qr/ERROR:  42501: cannot create SECURITY DEFINER function x\.of_dave\(\) on shard "s1"/, 'SECURITY DEFINER of another owner');
is(everywhere(q{SELECT count(*) FROM pg_proc WHERE proname = 'of_dave'}), '0 0', 'is not created');

# By a superuser's hand it can: the role is created, and the function runs as it.
$c->sql('CREATE TRIGGER d BEFORE INSERT ON x.c FOR EACH ROW EXECUTE FUNCTION x.of_dave()');
is(everywhere(q{SELECT pg_get_userbyid(proowner) || rolsuper || rolcanlogin FROM pg_proc JOIN pg_roles r ON r.oid = proowner WHERE proname = 'of_dave'}),
	'davefalsefalse davefalsefalse', 'the owner of a SECURITY DEFINER function');
$c->sql(q{CREATE OR REPLACE FUNCTION x.of_dave() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN NEW.n := length(current_user); RETURN NEW; END'});
is($c->sql('INSERT INTO x.c VALUES (2) RETURNING n'), length('dave'), 'it runs as its owner on the shards');

# eve and walt: their functions would have the privileges of app and weak.
for my $user ('eve', 'walt')
{
	as_user($user, qq{
		CREATE TABLE ${user}s (k bigint PRIMARY KEY, n int);
		CREATE FUNCTION ${user}_f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN EXECUTE ''ALTER ROLE weak SUPERUSER''; RETURN NEW; END';
		CREATE FUNCTION ${user}_g(int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN EXECUTE ''ALTER ROLE weak SUPERUSER''; RETURN true; END';
		CREATE DOMAIN ${user}_d AS int CHECK (${user}_g(VALUE))});
	$c->shard_sql($_, 'GRANT ALL ON SCHEMA x TO weak') for 1, 2;
	unlike(as_user($user, "SELECT shardlet.distribute('${user}s', 'm', 'k')"), qr/ERROR/, "$user distributes");
	like(as_user($user, "CREATE TRIGGER f BEFORE INSERT ON ${user}s FOR EACH ROW EXECUTE FUNCTION ${user}_f()"),
		qr/ERROR:  42501: permission denied to create function x\.${user}_f\(\) on the shards/, "a trigger function of $user");
	like(as_user($user, "ALTER TABLE ${user}s ADD CHECK (${user}_g(n))"), qr/ERROR:  42501/, "a check of $user");
	like(as_user($user, "ALTER TABLE ${user}s ADD COLUMN d ${user}_d"), qr/ERROR:  42501/, "a domain of $user");
	is(everywhere(qq{SELECT count(*) FROM pg_proc WHERE proname ~ '^${user}_'}) . everywhere(qq{SELECT count(*) FROM pg_type WHERE typname = '${user}_d'}),
		'0 00 0', "nothing of $user is created");
}
# A superuser has the function created; its owner still must not change what it does.
$c->sql('CREATE TRIGGER f BEFORE UPDATE ON x.eves FOR EACH ROW EXECUTE FUNCTION x.eve_f()');
like(as_user('eve', q{CREATE OR REPLACE FUNCTION eve_f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN EXECUTE ''ALTER ROLE carol SUPERUSER''; RETURN NEW; END'}),
	qr/ERROR:  42501: permission denied to create function x\.eve_f\(\) on the shards/, 'eve does not replace it');
like(as_user('eve', 'ALTER FUNCTION eve_f() SECURITY DEFINER'), qr/ERROR:  42501/, 'nor make it run as its owner');
is(everywhere(q{SELECT count(*) FROM pg_proc WHERE proname = 'eve_f' AND NOT prosecdef AND prosrc ~ 'weak'}), '1 1', 'the shards have the old one');

# A shard that joins, another server, gets objects, owners and roles.
$c->sql(qq{SELECT shardlet.add_shard('s3', '$conninfo[2]')});
$c->sql(q{SELECT shardlet.alter_map('m', add_shards => '{s3}')});
is($c->shard_sql(3, q{SELECT pg_get_userbyid(proowner) || prosecdef FROM pg_proc WHERE proname = 'of_dave'}), 'davetrue', 'functions of a new shard');
is($c->shard_sql(3, q{SELECT count(*) FROM pg_roles WHERE rolname IN ('reader', 'Odd reader', 'other', 'dave')}), '4', 'roles of a new shard');
is($c->shard_sql(3, q{SELECT count(*) FROM pg_policies WHERE roles = '{other}'}), '1', 'policies of a new shard');
is($c->sql(q{SELECT shards::text FROM shardlet.objects WHERE object = 'x.of_dave()'}), '{s1,s2,s3}', 'they are listed');

# A shard that dies in the middle of a change has the new body after it has come back, or no shard has.
$c->kill9($c->shard(2));
like($c->sqlstate(q{CREATE OR REPLACE FUNCTION x.of_dave() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN NEW.n := 100; RETURN NEW; END'}),
	qr/^(08|SL004|57P)/, 'a shard is down');
$c->start($c->shard(2));
is($c->shard_sql($_, q{SELECT count(*) FROM pg_proc WHERE prosrc ~ 'NEW.n := 100'}), '0', "nothing was changed on s$_") for 1, 2, 3;
is($c->sql(q{SELECT count(*) FROM pg_proc WHERE prosrc ~ 'NEW.n := 100'}), '0', 'nor on the router');

done_testing();
