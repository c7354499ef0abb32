
# The network fails at PREPARE TRANSACTION, COMMIT PREPARED and COMMIT: the request
# or the reply is lost, with a reset or in silence, for a while or for good.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use TransactionProbe;
use Time::HiRes qw(sleep);

# How long a session takes to find out that a shard is silent: not long here.
use constant PATIENCE => q{SET shardlet.silence_timeout = '500ms'; SET shardlet.connect_timeout = '500ms';};

# The messages of a command.  COMMIT is a prepared statement, and the answer to it a
# whole string: it is the beginning of another.  What goes alone has no COMMIT.
my %message = (
	client => {
		prepare => [ P => 'PREPARE TRANSACTION' ],
		finish  => [ P => 'COMMIT PREPARED' ],
		commit  => [ B => 'shardlet_commit_' ],
		alone   => [ B => 'shardlet_' ] },
	server => {
		prepare => [ C => 'PREPARE TRANSACTION' ],
		finish  => [ C => 'COMMIT PREPARED' ],
		commit  => [ C => "COMMIT\0" ],
		alone   => [ C => 'UPDATE ' ] });
my %lost = (client => 'request', server => 'reply');

my $c = ShardletCluster->new(shards => 3, proxy => 1, router_conf => "shardlet.recovery_interval = 1s\n");
my $probe = TransactionProbe->new($c);

# Makes the next message with a command fail on its way.
sub arm
{
	my ($shard, $action, $side, $step) = @_;
	my ($type, $text) = @{ $message{$side}{$step} };
	$c->proxy($shard)->rule($action => $side, type => $type, text => $text);
	return;
}

sub struck
{
	my ($shard) = @_;
	my %count = $c->proxy($shard)->counts;
	return $count{struck};
}

sub wait_for_strike
{
	for my $shard (@_)
	{
		sleep 0.05 while !struck($shard);
	}
	return;
}

# The connection is reset.  Each on its own: what one leaves would be found by
# recovery when it looks for another's.
sub test_reset
{
	my ($side, $step, $kind, $shard, $expected) = @_;
	my $name = "$lost{$side} of $step reset, $kind, $shard";

	arm($shard, cut => $side, $step);
	my $t = $probe->run(kind => $kind, shard => $shard, name => $name);
	ok(struck($shard), "$name: has struck");
	$c->proxy($shard)->normal;
	$probe->settle($name);
	$probe->judge($expected, $t);
	return $t;
}

for my $side (qw(client server))
{
	for my $kind (qw(shards local))
	{
		my $t = test_reset($side, 'prepare', $kind, 's2', 'none');
		is($t->{told}, 'SL004', "$t->{name}: unreachable");
		$t = test_reset($side, 'finish', $kind, 's2', 'all');
		is($t->{told}, '', "$t->{name}: success");

		# The rule may have struck recovery, which looks after the case before.
		like($t->{stderr}, qr/^$|WARNING:  .*"s2" has not confirmed it yet/, "$t->{name}: with a warning");
	}
	test_reset($side, 'prepare', 'shards', $_, 'none') for qw(s1 s3);
	test_reset($side, 'finish', 'shards', $_, 'all') for qw(s1 s3);
}

# The only commit there is: the router finds out what became of it.
my $t = test_reset('client', 'commit', 'one', 's2', 'none');
is($t->{told}, 'SL004', "$t->{name}: unreachable");
like($t->{stderr}, qr/HINT:  The transaction was rolled back/, "$t->{name}: and rolled back");
$t = test_reset('server', 'commit', 'one', 's2', 'all');
is($t->{told}, '', "$t->{name}: success");

# Of a statement that is a transaction it cannot be found out: the session says that
# it does not know.
test_reset($_, 'alone', 'alone', 's2', 'told') for qw(client server);

# Silence.  Transactions at a time are each at a step and a shard of their own.
my %step_at = (s1 => 'prepare', s2 => 'finish', s3 => 'commit');

sub begin_silently
{
	my ($action, $side, $set, $kind, @shards) = @_;
	my @transactions;

	for my $shard (@shards)
	{
		my $step = $step_at{$shard};
		arm($shard, $action => $side, $step eq 'commit' && $kind eq 'alone' ? 'alone' : $step);
		push @transactions, $probe->begin(kind => $step eq 'commit' ? $kind : 'local', shard => $shard,
			set => $set, name => "$lost{$side} of $step, $action");
	}
	return @transactions;
}

# When they have been given up, either the network delivers what it kept, to
# shards that no session waits for any more, or it resets all connections.
sub end_silence
{
	my ($name, $end, $shards, @transactions) = @_;

	ok(struck($_), "$name: silence before $_") for @$shards;
	$c->proxy($_)->$end for @$shards;
	$probe->settle($name);
	$probe->judge('told', @transactions);
	return join ',', map { $_->{told} } @transactions;
}

my @all = sort keys %step_at;
for my $case ([ client => 'normal', 'one' ], [ client => 'reset', 'alone' ], [ server => 'reset', 'one' ], [ server => 'normal', 'alone' ])
{
	my ($side, $end, $kind) = @$case;
	my @transactions = begin_silently(blackhole => $side, PATIENCE, $kind, @all);

	$probe->end(@transactions);
	is(end_silence("$lost{$side} in silence, then $end", $end, \@all, @transactions), 'SL004,,08007', 'failed, succeeded, unknown');
}
for my $case ([ client => 'prepare', 'SL004' ], [ server => 'finish', '' ])
{
	my ($side, $step, $told) = @$case;

	arm('s2', blackhole => $side, $step);
	$t = $probe->run(set => PATIENCE, name => "$lost{$side} of $step in silence, shards");
	is(end_silence($t->{name}, 'normal', ['s2'], $t), $told, 'one of three is silent');
}

# It comes back before any timeout.
my @transactions = begin_silently(blackhole => 'client', '', 'one', @all);
wait_for_strike(@all);
sleep 0.3;
$c->proxy($_)->normal for @all;
$probe->end(@transactions);
$probe->settle('a moment of silence');
$probe->judge('all', @transactions);
is(join('', map { $_->{stderr} } @transactions), '', 'no session noticed');

# One connection is dead and the shard can be reached: that is not noticed, so
# the statement is cancelled.  That does not undo a decision, and leaves no doubt.
for my $case ([ 'SL004', s1 => 'client', s2 => 'client', s3 => 'client' ], [ '', s1 => 'server', s3 => 'server' ])
{
	my ($told, %side) = @$case;
	my @shards = sort keys %side;
	my $name = "$lost{$side{s1}} lost, cancelled";

	@transactions = map { begin_silently(mute => $side{$_}, '', 'one', $_) } @shards;
	wait_for_strike(@shards);
	$c->sql(q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'COMMIT%'});
	$probe->end(@transactions);
	is(end_silence($name, 'reset', \@shards, @transactions), join(',', '57014', $side{s2} ? '' : (), $told), $name);
}

# SQL of a transaction that rolls back to a savepoint: one row is written before it,
# one after it.  Returns it and the keys.
sub savepoint_sql
{
	my ($value) = @_;
	my @keys = splice @{ $probe->{keys}{s1} }, 0, 2;
	my ($first, $second) = map { $probe->updates({ keys => { s1 => $_ }, shards => ['s1'] }, $value) } @keys;

	return ("BEGIN; $first\nSAVEPOINT a; $second\nROLLBACK TO a;\nCOMMIT;", @keys);
}

sub values_of
{
	return $c->shard_sql('s1', "SELECT string_agg(v::text, ',' ORDER BY array_position('{$_[0],$_[1]}', id)) FROM acct WHERE id IN ($_[0], $_[1])");
}

# When ROLLBACK TO returns, the row locks taken since the savepoint are released,
# however slow the network is.
my ($sql, @keys) = savepoint_sql(-1);
$c->proxy('s1')->rule(blackhole => 'client', text => 'ROLLBACK TO SAVEPOINT');
my $session = $c->psql_begin($sql);
wait_for_strike('s1');
sleep 0.3;
is($c->sql(q{SELECT count(*) FROM pg_stat_activity WHERE query = 'ROLLBACK TO a;' AND state = 'active'}), '1', 'ROLLBACK TO waits for the shard');
$c->proxy('s1')->normal;
my ($status, undef, $stderr) = $c->psql_end($session);
is($c->sqlstate_of($status, $stderr), '', 'and the transaction goes on');
is(values_of(@keys), '-1,0', 'with what was written before the savepoint');

# If the connection is lost instead, so is the transaction.
($sql, @keys) = savepoint_sql(-2);
$c->proxy('s1')->rule(cut => 'server', type => 'C', text => 'ROLLBACK');
is($c->sqlstate($sql), 'SL004', 'connection lost at ROLLBACK TO');
ok(struck('s1'), 'there');
$c->proxy('s1')->normal;
$probe->settle('after that');
is(values_of(@keys), '0,0', 'nothing is written');

$c->destroy;
done_testing();
