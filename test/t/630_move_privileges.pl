
# Who is not a superuser and lacks rights on the shards is refused before anything
# happens, with the very command that helps; online moves are offered another mode.

use strict;
use warnings;

use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2, router_conf => "log_statement = none\n",
	shard_conf => "log_statement = none\nwal_retrieve_retry_interval = 100ms\n");

$c->sql(q{
	SELECT shardlet.create_map('mv', shardlets => 2);
	CREATE TABLE t (k bigint PRIMARY KEY, v int);
	CREATE TABLE "odd One" (k bigint PRIMARY KEY);
	SELECT shardlet.distribute('t', 'mv', 'k'), shardlet.distribute('"odd One"', 'mv', 'k');
	INSERT INTO t SELECT i, i FROM generate_series(1, 100) i;
	INSERT INTO "odd One" SELECT i FROM generate_series(1, 100) i});

# Those who are no superusers must be asked for a password.
for my $shard (1, 2)
{
	$c->shard_sql($shard, q{CREATE ROLE "the Mover" LOGIN PASSWORD 'secret'});
	unlink $c->shard($shard)->data_dir . '/pg_hba.conf';
	$c->shard($shard)->append_conf('pg_hba.conf', qq{local all all trust
host all "the Mover" 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust});
	$c->shard($shard)->reload;
}
$c->sql(q{
	CREATE ROLE "the Mover" LOGIN;
	GRANT USAGE ON FOREIGN SERVER s1, s2 TO "the Mover";
	CREATE USER MAPPING FOR "the Mover" SERVER s1 OPTIONS (user 'the Mover', password 'secret');
	CREATE USER MAPPING FOR "the Mover" SERVER s2 OPTIONS (user 'the Mover', password 'secret')});

my $shardlet = $c->sql(q{SELECT shardlet FROM shardlet.shardlets WHERE map = 'mv' AND shard = 's1'});

sub move
{
	my ($to, $mode) = @_;
	my ($status, undef, $stderr) = $c->psql_err(qq{SET SESSION AUTHORIZATION "the Mover";\nCALL shardlet.move_shardlet($shardlet, '$to', '$mode');});
	return ($c->sqlstate_of($status, $stderr), $stderr);
}

# Asks for a move, and does what the hint says, until it is done.
sub move_with_hints
{
	my ($to, $mode) = @_;
	my @commands;

	while (@commands < 30)
	{
		my $moves = $c->sql('SELECT count(*) FROM shardlet.moves');
		my ($code, $stderr) = move($to, $mode);

		return @commands if $code eq '';
		is($c->sql('SELECT count(*) FROM shardlet.moves'), $moves, 'refused before anything happens');
		like($code, qr/^(42501|55000)$/, 'for lack of rights');
		my ($shard) = $stderr =~ /ERROR: .* on shard "(s\d)"/;
		my ($command, $offer) = $stderr =~ /HINT: .*[Rr]un there: (.*?)(;|\. Or use mode "read_only"\.)$/m;

		last if !defined $shard || !defined $command || grep { $_ eq "$shard: $command" } @commands;
		push @commands, "$shard: $command";
		$c->shard_sql($shard, $command);
	}
	my (undef, $stderr) = move($to, $mode);
	fail("$mode to $to is not possible after @commands: $stderr");
	return @commands;
}

my ($code) = move('s2', 'read_only');
is($code, '42501', 'moves are not for everyone');
$c->sql('GRANT EXECUTE ON ALL ROUTINES IN SCHEMA shardlet TO "the Mover"');

my @commands = move_with_hints('s2', 'read_only');
for my $right ('SET ON PARAMETER', 'EXECUTE ON ALL FUNCTIONS', 'SELECT, DELETE ON public.t ', 'SELECT, INSERT, DELETE ON public.t ', 'DELETE ON public."odd One"')
{
	ok((grep { /\Q$right\E/ } @commands), "read_only: GRANT ... $right");
}
is($c->sql('SELECT count(*), sum(v) FROM t'), '100|5050', 'all rows are there');
move_with_hints('s1', 'read_only');

@commands = move_with_hints('s2', 'online');
diag(join "\n", @commands);
for my $right ('REPLICATION', 'GRANT CREATE ON DATABASE', 'GRANT CREATE ON SCHEMA shardlet', $c->shard(1)->pg_version >= 16 ? 'pg_create_subscription' : 'SUPERUSER')
{
	ok((grep { /\Q$right\E/ } @commands), "online: $right");
}
is($c->sql("SELECT shard FROM shardlet.shardlets WHERE shardlet = $shardlet"), 's2', 'moved');
is($c->sql('SELECT count(*), sum(v) FROM t'), '100|5050', 'all rows are there');
is($c->sql('SELECT count(*) FROM "odd One"'), '100', 'of both tables');

done_testing();
