
# sqlsmith sends whatever its grammar allows to a router: no process dies, on the
# router or on a shard, and there is no internal error that plain tables do not
# have as well.
#
# SL_SMITH_SECONDS is how long, SL_SMITH_SEED repeats the same statements.

use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Utils;
use RandomSchema;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep time);

plan skip_all => 'sqlsmith is not installed' if !IPC::Run::run([ 'sqlsmith', '--version' ], '>&', '/dev/null');

my $seconds = $ENV{SL_SMITH_SECONDS} || 300;
my $seed = $ENV{SL_SMITH_SEED} || int time;
my $conf = "restart_after_crash = on\nlog_statement = none\nlog_error_verbosity = verbose\nfsync = off\nautovacuum = off\n";

my $c = ShardletCluster->new(shards => 4, router_conf => $conf, shard_conf => $conf);
my @nodes = ($c->router, map { $c->shard($_) } 1 .. 4);

# Among all functions that there are, some end servers: not as a superuser.  Who is
# none must show a password to the shards.
for my $node (@nodes)
{
	unlink $node->data_dir . '/pg_hba.conf';
	$node->append_conf('pg_hba.conf', "local all all trust\nhost all smith 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust");
	$node->reload;
	$node->safe_psql('app', "CREATE ROLE smith LOGIN PASSWORD 'smith'; ALTER ROLE smith SET statement_timeout = '2s'");
}
$c->sql(q{CREATE USER MAPPING FOR smith SERVER shardlet_tables OPTIONS (user 'smith', password 'smith')});
# Views and functions of the extension are there for sqlsmith as well.
$c->router->safe_psql('postgres', 'CREATE DATABASE plain');
$c->router->safe_psql('plain', 'CREATE EXTENSION shardlet');
for my $database ('plain', 'app')
{
	$c->router->safe_psql($database, RandomSchema::tables_sql());
	$c->sql(RandomSchema::distribute_sql()) if $database eq 'app';
	$c->router->safe_psql($database, RandomSchema::views_sql() . 'GRANT ALL ON ALL TABLES IN SCHEMA public TO smith; ANALYZE');
}
is($c->sql("SET SESSION AUTHORIZATION smith; SELECT count(*) FROM orders o JOIN items i USING (customer_id, order_id)") > 100, 1, 'smith reads from the shards');

# It prints a dot for a statement, an "e" for an error, "t" and "S" for others.
my $good = () = join('', grep { /^[.eStC]+$/ } split /\n/, run_sqlsmith()) =~ /\./g;
cmp_ok($good, '>', $seconds, "$good statements without error in $seconds s");
my @dead = grep { /was terminated by signal|TRAP:|PANIC:/ } map { split /\n/, slurp_file($_->logfile) } @nodes;
is(join("\n", @dead), '', "no process died, seed $seed");
my @internal = internal_errors();
is(join("\n", @internal), '', 'no internal error that plain tables have not');
is($c->sql('SELECT count(*) >= 0 FROM orders'), 't', 'the router still answers');
is($c->sql('SELECT count(*) FROM shardlet.prepared_transactions'), '0', 'nothing is left prepared') if !@dead;

$c->destroy;
done_testing();

# As long as there is time; it ends by itself when its connection is lost.
sub run_sqlsmith
{
	my $until = time + $seconds;
	my $all = '';

	while (time < $until)
	{
		my $output = '';
		my $timer = IPC::Run::timer($until - time);
		my $smith = IPC::Run::start([ 'sqlsmith', '--target=' . $c->router->connstr('app') . ' user=smith', '--exclude-catalog', '--verbose', '--seed=' . $seed++ ],
			'<', \undef, '>&', \$output, $timer);
		sleep 0.5 while !$timer->is_expired && $smith->pumpable && eval { $smith->pump_nb; 1 };
		$smith->kill_kill;
		$all .= $output;
	}
	return $all;
}

# Errors of class XX on the router whose statement is none on plain tables.
sub internal_errors
{
	my @found;
	my $log = slurp_file($c->router->logfile);

	while ($log =~ /ERROR:  (XX\d{3}: .*?)\n(?:.*\n)*?\S.*STATEMENT:  ((?:.*\n)(?:\t.*\n)*)/g)
	{
		my ($error, $statement) = ($1, $2);

		# Final functions that are called by themselves; when depends on the plan.
		next if $error =~ /expected \d+-element float8 array/;
		next if $c->sqlstate("SET ROLE smith;\n$statement", database => 'plain') =~ /^XX/;
		push @found, "$error\n$statement";
	}
	return @found;
}
