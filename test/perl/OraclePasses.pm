
# OraclePasses
#	Makes the tables of the oracle, as plain ones and on a router with four shards,
#	and runs the lists of test/oracle on both, once for each pass.
#
# TABLE_ORACLE_ONLY=regex runs the lists whose name matches, TABLE_ORACLE_PASS=regex
# the passes.  TABLE_ORACLE_SELF=1 compares a second plain database, with its rows
# in another order and with other plans: what differs there is not defined by SQL
# and must not stand in a list.

package OraclePasses;

use strict;
use warnings;

use FindBin;
use PostgreSQL::Test::Utils;
use ShardletCluster;
use TableOracle;
use Test::More;
use WireClient;

use Exporter qw(import);
our @EXPORT = qw(run_passes);

my $folder = "$FindBin::Bin/../oracle";
my $self_test = $ENV{TABLE_ORACLE_SELF};
my @other_plans = map { "enable_$_ = off" } qw(hashjoin hashagg indexscan);

# table => [kind, map or shard, key]; tables that others refer to come first.
my @tables = (
	[ products => 'reference' ],
	[ regions => 'reference' ],
	[ customers => 'sharded', 'customer', 'customer_id' ],
	[ orders => 'sharded', 'customer', 'customer_id' ],
	[ items => 'sharded', 'customer', 'customer_id' ],
	[ skew => 'sharded', 'customer', 'customer_id' ],
	[ nothing => 'sharded', 'customer', 'customer_id' ],
	[ members => 'sharded', 'customer', 'customer_id' ],
	[ wide => 'sharded', 'customer', 'customer_id' ],
	[ tickets => 'sharded', 'customer', 'customer_id' ],
	[ badges => 'sharded', 'customer', 'customer_id' ],
	[ metrics => 'sharded', 'customer', 'customer_id' ],
	[ visits => 'sharded', 'customer', 'visitor' ],
	[ holes => 'sharded', 'thing', 'id' ],
	[ tree => 'sharded', 'thing', 'node' ],
	[ kinds => 'sharded', 'thing', 'id' ],
	[ big => 'sharded', 'thing', 'id' ],
	[ bulk => 'sharded', 'thing', 'id' ],
	[ '"Odd Schema"."Odd Table"' => 'sharded', 'thing', '"Key Col"' ],
	[ lonely => 'sharded', 'span', 'id' ],
	[ days => 'sharded', 'calendar', 'day' ],
	[ regional => 'sharded', 'region', 'region' ],
	[ accounts => 'sharded', 'tenant', 'tenant, acct' ],
	[ codes => 'sharded', 'code', 'code' ],
	[ devices => 'sharded', 'device', 'device' ],
	[ events => 'sharded', 'log', undef ],
	[ config => 'placed', 's3', undef ],
	[ notes => 'local' ],
);
my @names = map { $_->[0] } @tables;
my %keys = map { $_->[0] => [ @$_[ 2, 3 ] ] } grep { $_->[1] eq 'sharded' && $_->[3] } @tables;

my $maps = q{
	SELECT shardlet.create_map('customer');
	SELECT shardlet.create_map('thing', shardlets => 7);
	SELECT shardlet.create_map('span', 'range', '{int}');
	SELECT shardlet.assign_range('span', 's2', NULL, 1000), shardlet.assign_range('span', 's1', 1000, 2000), shardlet.assign_range('span', 's3', 2000, NULL);
	SELECT shardlet.create_map('calendar', 'range', '{date}');
	SELECT shardlet.assign_range('calendar', 's1', NULL, date '2026-01-01'), shardlet.assign_range('calendar', 's2', date '2026-01-01', date '2026-01-10'),
		shardlet.assign_range('calendar', 's1', date '2026-01-10', date '2026-02-01'), shardlet.assign_range('calendar', 's4', date '2026-02-01', NULL);
	SELECT shardlet.create_map('region', 'list', '{text}');
	SELECT shardlet.assign_keys('region', 's1', ARRAY['north', 'south']), shardlet.assign_key('region', 's3', 'east'::text), shardlet.assign_default('region', 's4');
	SELECT shardlet.create_map('tenant', 'hash', '{text,int}');
	SELECT shardlet.create_map('code', 'hash', '{text}');
	SELECT shardlet.create_map('device', 'hash', '{uuid}');
	SELECT shardlet.create_map('log', 'spread');
};

my @settings = ("SET statement_timeout = '90s'", 'SET extra_float_digits = 1');
my ($c, $node);

# run_passes(pass, ...): each is its name, how statements are sent, and further
#	change   => file with DDL for both sides that comes before
#	lists    => pattern, not all of them
#	settings => of the router's session
sub run_passes
{
	my @passes = @_;
	my ($only, $pass_only) = map { $ENV{$_} // '' } qw(TABLE_ORACLE_ONLY TABLE_ORACLE_PASS);
	my @lists = grep { m{([^/]+)\.sql$} && $1 =~ /(?:$only)/ } sort glob "$folder/*.sql";
	my $total = 0;

	make_databases();
	my $oracle = make_oracle();
	for my $pass (@passes)
	{
		my ($name, undef, %option) = @$pass;

		change($option{change}) if $option{change};
		$total += run_pass($oracle, $pass, @lists) if $name =~ /(?:$pass_only)/;
	}
	cmp_ok($total, '>=', 2000 * grep({ !{ @$_[ 2 .. $#$_ ] }->{lists} } @passes), "$total statements were compared") if $only eq '' && $pass_only eq '';
	note(sprintf '%.1f s: %s:%d', $_->[0], $_->[1]{file}, $_->[1]{line}) for sort { $b->[0] <=> $a->[0] } @{ $oracle->{slow} // [] };

	$_->close for $oracle->{plain}, $oracle->{router};
	$c->destroy;
	return;
}

# Runs the lists in one way.  Returns the number of statements.
sub run_pass
{
	my ($oracle, $pass, @lists) = @_;
	my ($name, $protocol, %option) = @$pass;
	my $pattern = $option{lists} // '.';
	my $total = 0;

	$oracle->{router}->close;
	$oracle->{router}{settings} = [ @settings, map { "SET $_" } $self_test ? @other_plans : @{ $option{settings} // [] } ];
	for my $list (@lists)
	{
		my ($short) = $list =~ m{([^/]+)\.sql$};
		next if $short !~ /$pattern/;
		my ($count, $wrong) = $oracle->run_list($list, $protocol);
		$total += $count;
		is($wrong, 0, "$short, $name: $count statements");
	}
	is($oracle->compare_tables(@names), 0, "rows of all tables, $name");
	return $total;
}

# The shards are databases beside the router's and the plain one: one server is
# enough, and quick to make.
sub make_databases
{
	$c = ShardletCluster->new(shards => 0, local => 4,
		router_conf => "restart_after_crash = on\nlog_statement = none\nfsync = off\nautovacuum = off");
	$node = $c->router;
	$node->safe_psql('postgres', 'CREATE DATABASE plain');
	for my $database ('plain', 'app')
	{
		$node->safe_psql('postgres', "ALTER DATABASE $database SET timezone = 'Europe/Berlin'");
		run_file($database, 'tables');
	}
	if ($self_test)
	{
		scramble();
	}
	else
	{
		$c->sql($maps);
		distribute();
	}
	run_file($_, 'objects') for 'plain', 'app';
	$c->sql('ANALYZE') if $self_test;
	$node->safe_psql('plain', 'ANALYZE');
	return;
}

sub make_oracle
{
	my ($plain, $router) = map { WireClient->new($node, $_, settings => \@settings) } 'plain', 'app';

	return TableOracle->new(plain => $plain, router => $router,
		log => "$PostgreSQL::Test::Utils::log_path/oracle_differences.txt",
		version => int($c->sql('SHOW server_version_num') / 10000),
		after_write => $self_test ? undef : \&misplaced,
		probes => {
			notes => 'SELECT customer_id, body FROM notes',
			tickets => 'SELECT customer_id, number, title, weight, double_weight, opened IS NULL, token IS NULL, owner, feeling FROM tickets',
		});
}

sub change
{
	my ($name) = @_;

	run_file($_, $name) for 'plain', 'app';
	shift_attributes() if !$self_test;
	return;
}

sub run_file
{
	my ($database, $name) = @_;
	$node->safe_psql($database, slurp_file("$folder/setup/$name.sql"));
	return;
}

# Tables that refer to each other go to the shards together, those that they refer to
# on every shard before them.
sub distribute
{
	my %of_map;

	$c->sql("SELECT shardlet.make_reference('$_->[0]')") for grep { $_->[1] eq 'reference' } @tables;
	$c->sql("SELECT shardlet.place('$_->[0]', '$_->[2]')") for grep { $_->[1] eq 'placed' } @tables;
	push @{ $of_map{ $_->[2] } }, $_ for grep { $_->[1] eq 'sharded' } @tables;
	for my $map (sort keys %of_map)
	{
		my $names = join ', ', map { "'$_->[0]'" } @{ $of_map{$map} };
		my $keys = join ', ', map { defined $_->[3] ? "'$_->[3]'" : 'NULL' } @{ $of_map{$map} };
		$c->sql("SELECT shardlet.distribute_tables(ARRAY[$names]::regclass[], '$map', ARRAY[$keys])");
	}
	return;
}

# Moves a third of the rows to the end of each table, so that a statement whose
# result hangs on the order in the heap is found out.
sub scramble
{
	for my $name (@names)
	{
		my $column = $c->sql("SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = '$name'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum LIMIT 1");
		$c->sql("UPDATE $name SET $column = $column WHERE (ctid::text::point)[1]::int % 3 = 1") if $name ne 'badges';
	}
	return;
}

# A column comes and goes on some of the shards alone, so that attribute numbers
# differ between them as well.
sub shift_attributes
{
	my $number = 0;
	for my $table (grep { $_->[1] eq 'sharded' } @tables)
	{
		$node->safe_psql('app_s' . (1 + $number++ % 4), "ALTER TABLE $table->[0] ADD COLUMN passing int; ALTER TABLE $table->[0] DROP COLUMN passing");
	}
	return;
}

# Rows of a table, as the session sees them, that are on a shard which does not
# own their key; undef if all is well.
sub misplaced
{
	my ($session, $table) = @_;
	my ($map, $key) = @{ $keys{$table} // return };
	my $at = 'q' . join ', q', 1 .. split /,/, $key;
	my $types = join ', ', map { "q$_ text" } 1 .. split /,/, $key;
	my $texts = join ', ', map { "($_)::text" } split /, */, $key;
	my %cast = (customer => ['bigint'], thing => ['bigint'], span => ['int'], calendar => ['date'], region => ['text'], tenant => [ 'text', 'int' ], code => ['text'], device => ['uuid']);
	my $number = 0;
	my $arguments = join ', ', map { 'q' . ++$number . "::$_" } @{ $cast{$map} };
	my ($result) = $session->simple("SELECT $at, shardlet_shard FROM shardlet.query('$map', 'SELECT $texts FROM $table') AS q($types, shardlet_shard name) WHERE shardlet.route('$map', $arguments) <> shardlet_shard");

	return "could not look for misplaced rows: $result->{error}{M}" if $result->{error};
	return if !@{ $result->{rows} };
	return scalar @{ $result->{rows} } . ' rows on a shard that does not own them: ' . join('; ', map { join ' ', @$_ } @{ $result->{rows} });
}

1;
