
# Whose credentials open a connection: who is not a superuser connects with a
# password of their own, and with nothing that the server process has.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 1);
my $folder = $PostgreSQL::Test::Utils::tmp_check;
my $owner = $c->sql('SELECT current_user');
my ($passwords, $services) = ("$folder/passwords", "$folder/services");

$c->sql(q{SELECT shardlet.create_map('m')});

# The shard asks everyone for a password; the router's server process has one for
# everyone, the superuser included.
$c->shard_sql(1, qq{
	ALTER ROLE "$owner" PASSWORD 'process-pw';
	CREATE ROLE app LOGIN SUPERUSER PASSWORD 'process-pw';
	CREATE ROLE plain LOGIN PASSWORD 'plain-pw';
	CREATE ROLE boss LOGIN PASSWORD 'process-pw'});
unlink $c->shard(1)->data_dir . '/pg_hba.conf';
$c->shard(1)->append_conf('pg_hba.conf', "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256");
$c->shard(1)->reload;
append_to_file($passwords, "*:*:*:*:process-pw\n");
chmod 0600, $passwords;
append_to_file($services, "[lend]\nuser=$owner\npassword=process-pw\nhost=127.0.0.1\n");
$c->sql(q{
	CREATE ROLE app LOGIN;
	CREATE ROLE boss LOGIN SUPERUSER;
	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA shardlet TO app, boss;
	GRANT USAGE ON FOREIGN DATA WRAPPER shardlet TO app;
	GRANT USAGE ON FOREIGN SERVER s1 TO app});

my $query = q{SELECT u FROM shardlet.query('m', 'SELECT current_user') AS q(u name);};
my $execute = q{SELECT command FROM shardlet.execute('m', 'SELECT 1');};
my $health = q{SELECT message FROM shardlet.health();};
sub mapping
{
	my ($user, $options) = @_;
	$c->sql("DROP USER MAPPING IF EXISTS FOR $user SERVER s1; CREATE USER MAPPING FOR $user SERVER s1 OPTIONS ($options)");
	return;
}

# With each of these the server process gets in by itself.
my $restart = sub { $c->router->restart };
for my $way (
	[ 'a password file', sub { local $ENV{PGPASSFILE} = $passwords; $restart->() } ],
	[ 'PGPASSWORD', sub { local $ENV{PGPASSWORD} = 'process-pw'; $restart->() } ],
	[ 'PGSERVICE', sub { local @ENV{qw(PGSERVICEFILE PGSERVICE)} = ($services, 'lend'); $restart->() } ],
	[
		'option "passfile"',
		sub { $restart->(); $c->sql("ALTER SERVER s1 OPTIONS (ADD passfile '$passwords')") },
		q{ALTER SERVER s1 OPTIONS (DROP passfile)}
	],
	[
		'option "service"',
		sub { local $ENV{PGSERVICEFILE} = $services; $restart->(); $c->sql(q{ALTER SERVER s1 OPTIONS (ADD service 'lend')}) },
		q{ALTER SERVER s1 OPTIONS (DROP service)}
	])
{
	my ($name, $begin, $end) = @$way;

	$begin->();
	is($c->sql($query), $owner, "$name: a superuser may use it");
	$c->sql('DROP USER MAPPING IF EXISTS FOR app SERVER s1');
	is($c->sqlstate("SET ROLE app; $query"), '2F003', "$name: without a mapping");
	is($c->sqlstate("SET ROLE app; $execute"), '2F003', "$name: nor for execute");
	is($c->sql("SET ROLE app; $health"), 'password is required to connect to shard "s1"', "$name: nor for health");
	for my $options ("user 'app'", "user '$owner'", "user '$owner', password ''", "user 'app', sslpassword 'x'")
	{
		mapping('app', $options);
		is($c->sqlstate("SET ROLE app; $query"), '2F003', "$name: mapping with $options");
	}
	mapping('app', "user 'plain', password 'wrong'");
	is($c->sqlstate("SET ROLE app; $query"), 'SL004', "$name: a wrong password is not made good");
	mapping('app', "user 'plain', password 'plain-pw'");
	is($c->sql("SET ROLE app; $query"), 'plain', "$name: the right one is used");
	is($c->sqlstate("SET ROLE app; SELECT shardlet.add_shard('x', '" . $c->conninfo(1) . "')"), '2F003', "$name: add_shard");
	$c->sql($end) if $end;
}
{
	local $ENV{PGPASSFILE} = $passwords;
	$restart->();
}

$c->sql(q{
	CREATE ROLE maker;
	CREATE TABLE item (id bigint PRIMARY KEY);
	SELECT shardlet.distribute('item', 'm', 'id');
	GRANT ALL ON item TO app, maker;
	CREATE VIEW items AS SELECT * FROM item;
	ALTER VIEW items OWNER TO maker;
	GRANT SELECT ON items TO app});
$c->shard_sql(1, 'GRANT ALL ON item TO plain');

# A superuser's gift, for one or for all.
$c->sql(q{DROP USER MAPPING FOR app SERVER s1; CREATE USER MAPPING FOR PUBLIC SERVER shardlet_tables OPTIONS (user 'plain', password 'plain-pw')});
is($c->sql("SET ROLE app; $query"), 'plain', 'a mapping for everyone');

# A transaction sees as one user what it has written as another, if the shard takes
# both for the same one.
my $seen = q{SET ROLE app; BEGIN; INSERT INTO item VALUES (7);
	SELECT (SELECT count(*) FROM item), (SELECT count(*) FROM items);
	SET LOCAL ROLE maker; UPDATE item SET id = id RETURNING id; ROLLBACK;};
is($c->sql($seen), "1|1\n7", 'own writes through a view of another user');
is($c->sql("SELECT count(*) FROM items; $seen"), "0\n1|1\n7", 'whoever was connected before');

# But no user gets the connection of another.
is($c->sql(qq{BEGIN; INSERT INTO item VALUES (7); SET LOCAL ROLE app; $query}), 'plain', 'a superuser with the same mapping');
mapping($owner, "user '$owner'");
is($c->sql(qq{BEGIN; INSERT INTO item VALUES (7); SET LOCAL ROLE app; $query}), 'plain', 'and one with another');
$c->sql(qq{DROP USER MAPPING FOR $owner SERVER s1; ALTER USER MAPPING FOR PUBLIC SERVER shardlet_tables OPTIONS (SET user 'app', DROP password)});
is($c->sql('INSERT INTO item VALUES (8) RETURNING id'), '8', 'a superuser with the password of the process');
is($c->sqlstate(qq{BEGIN; INSERT INTO item VALUES (7); SET LOCAL ROLE app; $query}), '2F003', 'which is not lent to others');
$c->sql(q{DROP USER MAPPING FOR PUBLIC SERVER shardlet_tables; DROP TABLE item CASCADE});

# One who owns a server names no file, and hands on no ticket.
for my $option (qw(passfile service sslcert sslkey gssdelegation))
{
	# libpq has the last one from 16 on.
	my $refused = $option eq 'gssdelegation' ? qr/^(42501|HV00D)$/ : qr/^42501$/;

	like($c->sqlstate("SET ROLE app; CREATE SERVER mine FOREIGN DATA WRAPPER shardlet OPTIONS (host '127.0.0.1', $option '1')"),
		$refused, "option \"$option\" of a server");
	like($c->sqlstate("SET ROLE app; SELECT shardlet.add_shard('mine', '" . $c->conninfo(1) . " user=plain password=plain-pw $option=1')"),
		$refused, "option \"$option\" in add_shard");
	like($c->sqlstate("SET ROLE app; CREATE USER MAPPING FOR app SERVER s1 OPTIONS (user 'app', $option '1')"),
		qr/^(42501|HV00D)$/, "option \"$option\" of a user mapping");
}
is($c->sql(q{SELECT count(*) FROM pg_user_mappings}), 0, 'nothing of it stays');

# A server that asks for the password and sends libpq on to one that does not.
$c->shard_sql(1, 'ALTER ROLE plain SET default_transaction_read_only = on');
mapping('app', "user 'plain', password 'plain-pw'");
$c->sql(q{CREATE ROLE plain LOGIN});
my ($host, $port, $router_port) = ('127.0.0.1', $c->shard(1)->port, $c->router->port);
$c->sql("ALTER SERVER s1 OPTIONS (SET host '$host,$host', SET port '$port,$router_port', ADD target_session_attrs 'read-write')");
my (undef, undef, $stderr) = $c->psql_err("SET ROLE app; $query");
like($stderr, qr/2F003: .*DETAIL:  The shard did not ask for the password/s, 'the last server must have asked');
$c->sql("ALTER SERVER s1 OPTIONS (SET host '$host', SET port '$port', DROP target_session_attrs)");

# A superuser who is none any more keeps no connection that was made as one.
is($c->sql("SET ROLE boss; $query"), 'boss', 'a superuser');
my ($status, $stdout);
($status, $stdout, $stderr) = $c->psql_err("\\set ON_ERROR_STOP 0\nSET ROLE boss; $query RESET ROLE; ALTER ROLE boss NOSUPERUSER; SET ROLE boss; $query");
is($stdout, 'boss', 'as long as it is one');
like($stderr, qr/2F003/, 'and no longer');

# Who may have one connection only can cancel what runs on it all the same.
$c->shard_sql(1, q{ALTER ROLE plain RESET default_transaction_read_only; ALTER ROLE plain CONNECTION LIMIT 1});
my $start = time;
is($c->sqlstate(q{SET ROLE app; SET statement_timeout = '500ms'; SELECT * FROM shardlet.query('m', 'SELECT pg_sleep(60)') AS q(a text)}), '57014', 'a cancel without a place for a second connection');
cmp_ok(time - $start, '<', 4, 'in no time');
is($c->shard_sql(1, q{SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND state = 'active' AND pid <> pg_backend_pid()}), 0, 'nothing runs on');

$c->destroy;
done_testing();
