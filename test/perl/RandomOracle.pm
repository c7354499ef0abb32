
# RandomOracle
#	Runs random cases (RandomCase) on plain tables and on a router, there on each of
#	several plans, and compares everything that a client can see.
#
#	my $oracle = RandomOracle->new(plain => $session, other => $session,
#		plans => [ [ 'as it is', $session ], [ 'no ship', $session ] ]);
#	my @problems = $oracle->run(RandomCase->new(42));
#
# "other" is a second plain database with its rows in another order and with other
# plans.  What differs there, too, is not defined by SQL: a mistake of the generator,
# counted and not reported.  With "self_test" the plans are plain databases as well.

package RandomOracle;

use strict;
use warnings;

use RandomSchema;
use TableOracle;
use Time::HiRes qw(time);

sub new
{
	my ($class, %option) = @_;
	my $self = bless { %option, count => { cases => 0, statements => 0, errors => 0, undefined => 0, skipped => 0, slow => 0 } }, $class;
	$self->{table_oracle} = TableOracle->new(plain => $option{plain}, router => $option{plans}[0][1]);
	return $self;
}

# Problems of a case, each a string; none if all plans give what plain tables give.
sub run
{
	my ($self, $case) = @_;
	my @plain = $self->_answers($self->{plain}, $case, 0);
	my @problems;

	$self->{count}{cases}++;
	$self->{count}{statements} += @{ $case->{steps} };
	$self->{count}{errors}++ if grep { $_->{error} } map { @{ $_->{results} } } @plain;
	if (_is_cancelled(@plain))
	{
		$self->{count}{skipped}++;
		return;
	}
	for my $plan (@{ $self->{plans} })
	{
		my ($name, $session) = @$plan;
		my $start = time;
		my @router = $self->_answers($session, $case, !$self->{self_test});
		my ($step, @found) = $self->_difference($case, \@plain, \@router);

		if (_is_cancelled(@router))
		{
			$self->{count}{slow}++;
			push @{ $self->{slow} }, sprintf 'case %d, %s: %.1f s', $case->{number}, $name, time - $start;
			next;
		}
		next if !@found;
		if ($self->_is_undefined($case, \@plain))
		{
			$self->{count}{undefined}++;
			push @{ $self->{undefined} }, "case $case->{number}: @found";
			return;
		}
		push @problems, { plan => $name, session => $session, step => $step, found => \@found };
	}
	return @problems;
}

# Would another plain server give another answer?
sub _is_undefined
{
	my ($self, $case, $plain) = @_;

	return 0 if !$self->{other};
	my @other = $self->_answers($self->{other}, $case, 0);
	return 0 if _is_cancelled(@other);
	my ($step) = $self->_difference($case, $plain, \@other);
	return defined $step;
}

# Everything that a case answers: for each statement, and for each look at a table
# after it, { what, step, results }.
sub _answers
{
	my ($self, $session, $case, $is_router) = @_;
	my (@answers, %written);

	$session->simple("SET $_->[0] = $_->[1]") for @{ $case->{settings} };
	$session->simple($case->{begin}) if $case->{begin};
	for my $step (@{ $case->{steps} })
	{
		my @results = $step->{values} ? $session->prepared($step->{sql}, @{ $step->{values} })
			: $step->{portal} ? $session->portal(@$step{qw(sql portal)}) : $session->simple($step->{sql});
		push @answers, { step => $step, results => \@results };
		last if _is_cancelled($answers[-1]);
		for my $table (RandomSchema::with_dependents(@{ $step->{writes} // [] }))
		{
			$written{$table} = 1;
			next if $session->state eq 'E';
			my ($columns) = join ', ', map { $_->[0] } @{ $RandomSchema::tables{$table}{columns} };
			push @answers, { step => $step, what => "after it, $table", results => [ $session->simple("SELECT $columns FROM $table") ] };
			my $misplaced = $is_router && RandomSchema::misplaced_sql($table) or next;
			push @answers, { step => $step, what => "rows of $table on a wrong shard", is_check => 1, results => [ $session->simple($misplaced) ] };
		}
	}
	$session->simple('ROLLBACK') if $session->state ne 'I';
	$session->simple("RESET $_->[0]") for @{ $case->{settings} };
	$self->_restore($session, %written) if %written && !$case->{begin};
	return @answers;
}

sub _restore
{
	my ($self, $session, %written) = @_;
	my @results = $session->simple(RandomSchema::restore_sql(sort keys %written));
	my ($failed) = grep { $_->{error} } @results;

	return if !$failed;
	$session->simple('ROLLBACK') if $session->state ne 'I';
	die "could not restore tables: $failed->{error}{C} $failed->{error}{M}\n";
}

sub _is_cancelled
{
	return grep { $_->{error} && $_->{error}{C} eq '57014' } map { @{ $_->{results} } } @_;
}

# The number of the first step that differs, from 1, and how; nothing if none does.
sub _difference
{
	my ($self, $case, $plain, $router) = @_;
	my @router = grep { !$_->{is_check} } @$router;

	return if grep { $_->{error} && _is_limit($_->{error}) } map { @{ $_->{results} } } @router;
	for my $check (grep { $_->{is_check} } @$router)
	{
		my $result = $check->{results}[0];
		my $number = $self->_number($case, $check->{step});
		return ($number, "could not look for $check->{what}: $result->{error}{M}") if $result->{error} && $result->{error}{C} ne '25P02';
		return ($number, "$check->{what}: " . join ', ', map { "(@$_)" } @{ $result->{rows} }) if @{ $result->{rows} };
	}
	for my $i (0 .. $#$plain)
	{
		my ($a, $b) = ($plain->[$i], $router[$i] // { results => [] });
		my @found = $self->_compare_answer($a, $b);
		return ($self->_number($case, $a->{step}), map { $a->{what} ? "$a->{what}: $_" : $_ } @found) if @found;
	}
	return;
}

sub _number
{
	my ($self, $case, $step) = @_;
	my ($index) = grep { $case->{steps}[$_] == $step } 0 .. $#{ $case->{steps} };
	return $index + 1;
}

sub _compare_answer
{
	my ($self, $a, $b) = @_;
	my @order = $a->{what} ? () : @{ $a->{step}{order} // [] };

	for my $i (0 .. $#{ $a->{results} })
	{
		my ($plain, $router) = ($a->{results}[$i], $b->{results}[$i] // { error => { C => 'nothing', M => 'no result' }, rows => [] });
		my @found;

		# PostgreSQL describes what is left of an expression when the values are known.
		_forget_typmods($plain, $router) if $a->{step}{values} || $a->{step}{sql} =~ /\b(CASE|coalesce|nullif|greatest|least)\b/;

		# Of several constraints that rows break, any may be the first.
		next if $plain->{error} && $router->{error} && "$plain->{error}{C} $router->{error}{C}" =~ /^23\w{3} 23/;
		@found = $self->{table_oracle}->compare({ notes => { sqlstate => 1, runs => $a->{step}{runs} } }, $plain, $router);

		# Before 18 PostgreSQL does not sort by a column that a condition makes constant, though
		# grouping sets make it NULL.
		@found = _compare_order($plain->{rows}, $router->{rows}, @order)
			if !@found && @order && !$plain->{error} && $a->{step}{sql} !~ /\b(ROLLUP|CUBE|GROUPING SETS)\b/;
		return @{ $a->{results} } > 1 ? ("run $i, with (" . join(', ', map { $_ // 'NULL' } @{ $a->{step}{values}[$i] }) . ')', @found) : @found if @found;
	}
	return;
}

sub _forget_typmods
{
	$_->[2] = -1 for map { @{ $_->{columns} // [] } } @_;
	return;
}

# What docs/limits.md says.
sub _is_limit
{
	my ($error) = @_;
	return $error->{C} eq '0A000' && $error->{M} =~ /of ON CONFLICT DO UPDATE cannot be computed on the shards/;
}

# In the columns that they are sorted by, the rows are the same one by one.
sub _compare_order
{
	my ($plain, $router, @order) = @_;

	for my $i (0 .. $#$plain)
	{
		my ($a, $b) = map { join ' | ', map { $_ // 'NULL' } @{ $_->[$i] }[ map { $_ - 1 } @order ] } $plain, $router;
		return ("order: row $i is", "   plain:  $a", "   router: $b") if $a ne $b;
	}
	return;
}

# A problem for the eyes of people, with a shorter statement that has it, too.
sub report
{
	my ($self, $case, @problems) = @_;
	my $problem = $problems[0];
	my @steps = @{ $case->{steps} }[ 0 .. $problem->{step} - 1 ];
	my $short = $self->shorten($case, $problem);
	my @lines = ("case $case->{number}, step $problem->{step}: " . join(', ', map { $_->{plan} } @problems));

	push @lines, map { "SET $_->[0] = $_->[1];" } @{ $case->{settings} };
	push @lines, "$case->{begin};" if $case->{begin};
	push @lines, map { "$_->{sql};" } @steps;
	push @lines, map { '   ' . substr $_, 0, 300 } @{ $problem->{found} };
	push @lines, "shorter: $short;";
	push @lines, map { '   ' . substr $_->[0], 0, 300 } map { @{ $_->{rows} } } $problem->{session}->simple("EXPLAIN (VERBOSE, COSTS off) $short") if !$steps[-1]{values};
	return join '', map { "$_\n" } @lines;
}

### Making a statement shorter

my $token = qr/ '(?:[^']|'')*' | "[^"]*" | \$\d+ | \w+(?:\.\w+)? | ::\s*\w+ | [<>=!~|&@?:+\-]+ | \S /x;

# Leaves out parts of the step that differs as long as it differs in the same way;
# returns the shorter SQL.  Works on words, and lets PostgreSQL say what is SQL.
sub shorten
{
	my ($self, $case, $problem, $seconds) = @_;
	my $until = time + ($seconds // 20);
	my $step = $case->{steps}[ $problem->{step} - 1 ];
	my $kind = _kind($problem->{found});
	my @words = $step->{sql} =~ /($token)/g;
	my $size = int(@words / 2);

	while ($size >= 1 && time < $until)
	{
		my $shorter;
		for (my $at = 0; $at + $size <= @words && time < $until; )
		{
			my @try = @words;
			splice @try, $at, $size;
			if ($self->_still($case, $problem, $kind, join ' ', @try))
			{
				@words = @try;
				$shorter = 1;
				next;
			}
			$at += $size > 3 ? int($size / 3) : 1;
		}
		$size = $shorter && $size == 1 ? 3 : int($size / 2) || ($size == 1 ? 0 : 1);
	}
	my $sql = join ' ', @words;
	$sql =~ s/ (?=[,)])|(?<=\() | (?=::)//g;
	return $sql;
}

sub _kind
{
	my ($found) = @_;
	my $line = (grep { !/^run / } @$found)[0];
	return $line =~ /^(SQLSTATE: .*)/ ? $1 : $line =~ /^([^:,]*)/ ? $1 : '';
}

sub _still
{
	my ($self, $case, $problem, $kind, $sql) = @_;
	my @steps = map { +{%$_} } @{ $case->{steps} };

	return 0 if $sql =~ /\b(LIMIT|FETCH)\b/ && $sql !~ /\bORDER BY\b/ || $sql =~ /^\s*(COMMIT|END|SET|ABORT|ROLLBACK)\b/i;
	@{ $steps[ $problem->{step} - 1 ] }{qw(sql order)} = ($sql, []);
	my $try = { %$case, steps => \@steps };
	my @plain = $self->_answers($self->{plain}, $try, 0);
	return 0 if _is_cancelled(@plain) || ($kind !~ /^SQLSTATE: [^n]/ && grep { $_->{error} } map { @{ $_->{results} } } @plain);
	my (undef, @found) = $self->_difference($try, \@plain, [ $self->_answers($problem->{session}, $try, 1) ]);
	return 0 if !@found || _kind(\@found) ne $kind;
	return !$self->_is_undefined($try, \@plain);
}

1;
