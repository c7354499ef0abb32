
# Adding shards that are other servers: what is checked, what cannot be
# reached, and whose name and password are used.

use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

# Statements are logged by default in tests; here the log must show no password.
my $c = ShardletCluster->new(shards => 3, proxy => 1, add => 0,
	router_conf => "log_statement = none\nlog_min_error_statement = error\n",
	shard_conf => "log_connections = on\n");
my ($router, @shard) = ($c->router, map { $c->shard($_) } 1 .. 3);

sub direct
{
	my ($number) = @_;
	return 'host=127.0.0.1 port=' . $c->shard($number)->port . ' dbname=app';
}

# The router itself.
$c->shard_sql(1, 'CREATE EXTENSION shardlet');
my (undef, undef, $stderr) = $shard[0]->psql('app', q{SELECT shardlet.add_shard('x')}, extra_params => [ '-v', 'VERBOSITY=verbose' ]);
like($stderr, qr/ERROR:  55000: .*shared_preload_libraries.*HINT: .*shared_preload_libraries = 'shardlet'/s, 'a server without preload is no router');
$c->shard_sql(1, 'DROP EXTENSION shardlet');
$c->sql('CREATE EXTENSION shardlet');
$router->append_conf('postgresql.conf', 'max_prepared_transactions = 0');
$router->restart;
(undef, undef, $stderr) = $c->psql_err(q{SELECT shardlet.add_shard('x')});
like($stderr, qr/ERROR:  55000: .*HINT: .*max_prepared_transactions = /s, 'nor one without prepared transactions');
$router->append_conf('postgresql.conf', 'max_prepared_transactions = 64');
$router->restart;

# A shard without prepared transactions; the same one bare.
$shard[1]->append_conf('postgresql.conf', 'max_prepared_transactions = 0');
$shard[1]->restart;
(undef, undef, $stderr) = $c->psql_err("SELECT shardlet.add_shard('s2', '" . direct(2) . "')");
like($stderr, qr/ERROR:  55000: .*HINT: .*max_prepared_transactions = .*install => false/s, 'prepared transactions on the shard');
is($c->sqlstate("SELECT shardlet.add_shard('s2', '" . direct(2) . "', install => false)"), '', 'bare');
is($c->shard_sql(2, q{SELECT count(*) FROM pg_extension WHERE extname = 'shardlet'}), 0, 'has no extension');
is($c->sql(q{SELECT bare FROM shardlet.shards WHERE shard = 's2'}), 't', 'and the view says so');

# One database by two addresses, on another machine's port too.
is($c->sqlstate("SELECT shardlet.add_shard('s1', '" . direct(1) . "')"), '', 'a shard');
is($c->sqlstate("SELECT shardlet.add_shard('twin', '" . $c->conninfo(1) . "')"), 'SL007', 'the same one through a proxy');
is($c->sqlstate("SELECT shardlet.add_shard('twin', 'host=" . $shard[0]->host . ' port=' . $shard[0]->port . " dbname=app')"), 'SL007', 'and through the socket');
is($c->sqlstate("SELECT shardlet.add_shard('twin', 'host=127.0.0.1 port=" . $router->port . " dbname=app')"), 'SL008', 'the router itself');

# A promoted clone shares every identifier with its origin, and is another database.
$shard[0]->backup('clone');
my $clone = PostgreSQL::Test::Cluster->new('clone');
$clone->init_from_backup($shard[0], 'clone');
$clone->start;
my $clone_info = 'host=127.0.0.1 port=' . $clone->port . ' dbname=app';
is($clone->safe_psql('app', 'SELECT system_identifier FROM pg_control_system()'),
	$c->shard_sql(1, 'SELECT system_identifier FROM pg_control_system()'), 'a clone');
is($c->sqlstate("SELECT shardlet.add_shard('clone', '$clone_info')"), '', 'can be a shard beside its origin');
is($c->sql(q{SELECT count(DISTINCT identity) FROM shardlet.shards WHERE shard IN ('s1', 'clone')}), 2, 'with an identity of its own');
is($c->sqlstate("SELECT shardlet.alter_shard('s1', '$clone_info')"), 'SL009', 'and does not pass for its origin');
$c->sql(q{SELECT shardlet.drop_shard('clone')});

# While the one that it could be is down, nothing can be said.
$clone->safe_psql('app', sprintf 'ALTER DATABASE app SET shardlet.identity = %s', "'" . $c->sql(q{SELECT identity FROM shardlet.shards WHERE shard = 's1'}) . "'");
$c->kill9($shard[0]);
is($c->sqlstate("SELECT shardlet.add_shard('clone', '$clone_info')"), 'SL004', 'not added while its origin is down');
$c->start($shard[0]);
$clone->stop;

# Unreachable in several ways; each ends, and the session goes on.
is($c->sqlstate(q{SELECT shardlet.add_shard('x', 'host=127.0.0.1 port=1 dbname=app')}), 'SL004', 'nobody listens');
is($c->sqlstate("SELECT shardlet.add_shard('x', '" . direct(3) =~ s/dbname=app/dbname=nonesuch/r . "')"), 'SL004', 'no such database');
is($c->sqlstate("SELECT shardlet.add_shard('x', '" . direct(3) . " user=nonesuch')"), 'SL004', 'no such user');
is($c->sql('SELECT count(*) FROM pg_user_mappings'), 0, 'and no user mapping is left');
$c->proxy(3)->rule(blackhole => 'client', nth => 1);
is($c->sqlstate("SET shardlet.connect_timeout = '300ms'; SELECT shardlet.add_shard('s3', '" . $c->conninfo(3) . "')"), 'SL004', 'no answer');
is($c->sqlstate("SET statement_timeout = '300ms'; SET shardlet.connect_timeout = '10min'; SELECT shardlet.add_shard('s3', '" . $c->conninfo(3) . "')"), '57014', 'a cancel is answered while connecting');
$c->proxy(3)->normal;
$c->proxy(3)->rule(cut => 'server', nth => 1);
is($c->sqlstate("SELECT shardlet.add_shard('s3', '" . $c->conninfo(3) . "')"), 'SL004', 'cut while logging in');
$c->proxy(3)->normal;
$c->proxy(3)->rule(cut => 'client', text => 'pg_try_advisory_lock');
is($c->sqlstate("SELECT shardlet.add_shard('s3', '" . $c->conninfo(3) . "')"), 'SL004', 'cut at a question');
$c->proxy(3)->normal;
$c->proxy(3)->rule(cut => 'server', text => 'CREATE EXTENSION');
is($c->sqlstate("SELECT shardlet.add_shard('s3', '" . $c->conninfo(3) . "')"), 'SL004', 'cut at the answer to CREATE EXTENSION');
$c->proxy(3)->normal;
is($c->sql('SELECT string_agg(shard, $$,$$ ORDER BY shard) FROM shardlet.shards'), 's1,s2', 'none of them was added');
is($c->sqlstate("SELECT shardlet.add_shard('s3', '" . $c->conninfo(3) . "')"), '', 'and then it can be');

# A shard that is down does not stop others.
$c->sql(q{SELECT shardlet.create_map('m')});
$c->stop_immediate($shard[2]);
is($c->sql(q{SELECT string_agg(shard || ' ' || ok, ',' ORDER BY shard) FROM shardlet.health()}), 's1 true,s2 true,s3 false', 'health');
is($c->sqlstate(q{SELECT shardlet.alter_shard('s3', 'connect_timeout=1')}), 'SL004', 'its address cannot be changed unseen');
is($c->sqlstate(q{SELECT shardlet.alter_shard('s3', 'connect_timeout=1', state => 'offline')}), '', 'but for an offline shard');
is($c->sqlstate(q{SELECT shardlet.alter_shard('s3', state => 'online')}), 'SL004', 'which is not online before it answers');
is($c->sqlstate(q{SELECT shardlet.route('m', g) FROM generate_series(1, 100) g}), 'SL004', 'its keys are stopped');
isnt($c->sql(q{SELECT count(shardlet.route('m', g)) FROM generate_series(1, 100) g WHERE (shardlet.locate('m', g)).state = 'online'}), 0, 'and no others');
$c->start($shard[2]);
is($c->sqlstate(q{SELECT shardlet.alter_shard('s3', state => 'online')}), '', 'online again');

# Passwords.
$c->shard_sql(3, q{CREATE ROLE keeper LOGIN PASSWORD 'tell-nobody'; CREATE ROLE four LOGIN PASSWORD 'four-pw';
	CREATE ROLE three LOGIN PASSWORD 'three-pw'; CREATE ROLE two LOGIN PASSWORD 'two-pw'; CREATE ROLE one LOGIN PASSWORD 'one-pw'});
my $owner = $c->shard_sql(3, 'SELECT current_user');
unlink $shard[2]->data_dir . '/pg_hba.conf';
$shard[2]->append_conf('pg_hba.conf', "local all all trust\nhost all $owner 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256");
$shard[2]->reload;
is($c->sqlstate(q{SELECT shardlet.alter_shard('s3', 'user=keeper password=tell-everybody')}), 'SL004', 'wrong password');
is($c->sqlstate(q{SELECT shardlet.alter_shard('s3', 'user=keeper password=tell-nobody')}), '', 'right password');
is($c->sqlstate(q{SELECT shardlet.alter_shard('s3', 'password=tell-no body')}), '42601', 'a password that breaks the string');
is($c->sqlstate(q{SELECT shardlet.add_shard('x', 'postgresql://keeper:tell-nobody@127.0.0.1:1/app')}), 'SL004', 'a password in a URI');
is($c->sqlstate(q{DO $$ BEGIN PERFORM shardlet.add_shard('x', 'host=127.0.0.1 port=1 password=tell-nobody'); END $$}), 'SL004', 'a password in a function');
is($c->sql(q{SELECT umoptions FROM pg_user_mappings}), '{user=keeper,password=tell-nobody}', 'it is in the user mapping');
unlike($c->sql(q{SELECT srvoptions FROM pg_foreign_server} . ';SELECT * FROM shardlet.shards; SELECT * FROM shardlet.map_documents'), qr/tell-/, 'and in nothing that others can read');
my (undef, undef, $error) = $c->psql_err(q{SELECT shardlet.alter_shard('s3', 'password=tell-no body')});
unlike($error =~ s/^LINE.*\n.*\n//mr, qr/tell-/, 'nor in an error');
unlike(slurp_file($router->logfile), qr/tell-/, 'nor in the log');

# Whose mapping counts: own on the shard, own on the shared server, PUBLIC's on
# the shard, PUBLIC's on the shared server.
$c->sql(q{
	DROP USER MAPPING FOR CURRENT_USER SERVER s3;
	CREATE ROLE app LOGIN;
	GRANT EXECUTE ON FUNCTION shardlet.health() TO app;
	CREATE USER MAPPING FOR app SERVER s3 OPTIONS (user 'one', password 'one-pw');
	CREATE USER MAPPING FOR app SERVER shardlet_tables OPTIONS (user 'two', password 'two-pw');
	CREATE USER MAPPING FOR PUBLIC SERVER s3 OPTIONS (user 'three', password 'three-pw');
	CREATE USER MAPPING FOR PUBLIC SERVER shardlet_tables OPTIONS (user 'four', password 'four-pw')});
for my $next ([ 'one', 'app SERVER s3' ], [ 'two', 'app SERVER shardlet_tables' ], [ 'three', 'PUBLIC SERVER s3' ], [ 'four', 'PUBLIC SERVER shardlet_tables' ])
{
	my ($user, $mapping) = @$next;
	my $mark = $c->log_mark($shard[2]);

	is($c->sql(q{SET ROLE app; SELECT ok FROM shardlet.health() WHERE shard = 's3'}), 't', "$mapping opens a connection");
	like($c->log_since($shard[2], $mark), qr/connection authorized: user=$user database=app application_name=shardlet:app:\d+/, "as $user");
	$c->sql("DROP USER MAPPING FOR $mapping");
}
is($c->sql(q{SET ROLE app; SELECT message FROM shardlet.health() WHERE shard = 's3'}), 'password is required to connect to shard "s3"', 'without any there is none');

$c->destroy;
done_testing();
