
# TableOracle
#	Runs lists of statements on a plain database and on a router whose tables
#	hold the same rows on shards, and compares everything a client can see.
#
# test/oracle/README.md says how a list is written.

package TableOracle;

use strict;
use warnings;

use Test::More;
use Time::HiRes qw(time);
use WireClient;

# How often a statement with parameters is run: the sixth time may be the first
# with a plan that fits all parameters.
my $runs_of_prepared = 7;

# new(plain => WireClient, router => WireClient, log => file, after_write => sub, probes => {table => query}, version => 18)
#
# after_write is called with the name of a table that a statement has written to
# and returns what is wrong on the shards, or nothing.  A probe stands for
# "SELECT *" where a table has columns that cannot be the same on both sides.
sub new
{
	my ($class, %option) = @_;
	my $self = bless { %option, statements => 0, types => {} }, $class;
	return $self;
}

# Runs the paragraphs of a list.  $protocol is 'simple', 'prepared' or 'portal'.
# Returns the number of statements and the number of those that differ.
sub run_list
{
	my ($self, $file, $protocol) = @_;
	my ($count, $wrong) = (0, 0);

	for my $paragraph (read_list($file))
	{
		my ($done, $failed) = $self->_run_paragraph($paragraph, $protocol);
		$count += $done;
		$wrong += $failed;
	}
	return ($count, $wrong);
}

# The rows of all these tables are the same on both sides.
sub compare_tables
{
	my ($self, @tables) = @_;
	return scalar grep { !$self->_compare_table($_, undef) } @tables;
}

sub _run_paragraph
{
	my ($self, $paragraph, $protocol) = @_;
	my ($plain, $router) = @$self{qw(plain router)};
	my $in_transaction = $paragraph->{notes}{transaction};
	my ($count, $wrong) = (0, 0);

	$_->simple('BEGIN') for $in_transaction ? ($plain, $router) : ();
	for my $statement (@{ $paragraph->{statements} })
	{
		next if ($statement->{notes}{since} // 0) > $self->{version};
		$count++;
		$wrong++ if !$self->_run_statement($statement, $protocol);
		if ($plain->state ne $router->state)
		{
			$self->_say("   the rest of the paragraph is left out\n") if $statement != $paragraph->{statements}[-1];
			last;
		}
	}
	for my $session ($plain, $router)
	{
		$session->simple('ROLLBACK') if $session->state ne 'I';
		$session->simple('RESET SESSION AUTHORIZATION; RESET ALL; SET statement_timeout = \'60s\'')
			if $paragraph->{notes}{resets};
	}
	return ($count, $wrong);
}

# One statement on both sides; true if all is the same.
sub _run_statement
{
	my ($self, $statement, $protocol) = @_;
	my ($start, @plain, @router, @problems, $took);

	@plain = $self->_execute($self->{plain}, $statement, $protocol);
	$start = time;
	@router = $self->_execute($self->{router}, $statement, $protocol);
	$took = time - $start;
	push @{ $self->{slow} }, [ $took, $statement ] if $took > 1;
	$self->_count_timeout(@router);
	if (my $mistake = _mistake($statement, \@plain))
	{
		push @problems, $mistake;
	}
	elsif (@plain != @router)
	{
		push @problems, sprintf 'results: %d on plain, %d on the router%s', scalar @plain, scalar @router,
			_error_text($router[-1]) . _error_text($plain[-1]);
	}
	else
	{
		for my $i (0 .. $#plain)
		{
			my @found = $self->compare($statement, $plain[$i], $router[$i]);
			next if !@found;
			push @problems, @plain > 1 ? "run $i:" : (), @found;
			last;
		}
	}
	$self->_report($statement, $protocol, @problems) if @problems;
	return 0 if @problems;
	return $self->_check_written($statement, $plain[-1]);
}

# Something that hangs may hang everywhere, and a test has to end.
sub _count_timeout
{
	my ($self, @results) = @_;

	return if !grep { $_->{error} && $_->{error}{C} =~ /^(57014|timeout)$/ } @results;
	die "too many statements took too long\n" if ++$self->{timeouts} > 3;
	return;
}

sub _execute
{
	my ($self, $session, $statement, $protocol) = @_;
	my $sql = $statement->{sql};
	my $notes = $statement->{notes};

	if ($notes->{with})
	{
		my @lists = @{ $notes->{with} };
		return $session->prepared($sql, map { $lists[ $_ % @lists ] } 0 .. $runs_of_prepared - 1);
	}
	return $session->simple($sql, $statement->{copy}) if $protocol eq 'simple' || !$statement->{is_plannable};
	return $session->prepared($sql, $statement->{is_query} ? ([], [], []) : []) if $protocol eq 'prepared' || !$statement->{is_query};

	# A portal lives in a transaction.
	my $own = $session->state eq 'I';
	$session->simple('BEGIN') if $own;
	my $result = $session->portal($sql, 7);
	$session->simple('COMMIT') if $own;
	return $result;
}

# A list is wrong, too, when a statement fails on plain tables and does not say so.
sub _mistake
{
	my ($statement, $results) = @_;
	my $fails = $statement->{notes}{fails};
	my ($failed) = grep { $_->{error} } @$results;
	my $error = $failed && $failed->{error};

	return "the list is wrong: fails on plain tables\n" . _error_text($failed) if $error && !$fails;
	return 'the list is wrong: does not fail on plain tables' if $fails && !$error;
	return "the list is wrong: fails with $error->{C} on plain tables" if $fails && $fails ne '1' && $fails ne $error->{C};
	return;
}

# What differs between two results, as lines of text.
sub compare
{
	my ($self, $statement, $plain, $router) = @_;
	my $notes = $statement->{notes};

	return $self->_compare_errors($plain->{error}, $router->{error}, $statement) if $plain->{error} || $router->{error};
	return if $notes->{runs};

	my @found;
	push @found, "command: $plain->{tag} on plain, $router->{tag} on the router" if ($plain->{tag} // '') ne ($router->{tag} // '');
	for my $what (qw(columns parameters))
	{
		my $a = $self->_describe('plain', $plain->{$what});
		my $b = $self->_describe('router', $router->{$what});
		push @found, "$what: $a on plain\n" . (' ' x length $what) . "  $b on the router" if $a ne $b;
	}
	my $ordered = $statement->{is_ordered};
	push @found, _compare_rows([ map { _row_text($_) } @{ $plain->{rows} } ], [ map { _row_text($_) } @{ $router->{rows} } ], $ordered);
	push @found, _compare_rows($plain->{copied} // [], $router->{copied} // [], $ordered);
	return @found;
}

# An application branches on the SQLSTATE; for broken constraints and data
# exceptions it also reads names, message and detail.
sub _compare_errors
{
	my ($self, $plain, $router, $statement) = @_;
	my ($code, $got) = map { $_ ? $_->{C} : 'no error' } $plain, $router;
	my @found;

	if ($code ne $got)
	{
		push @found, "SQLSTATE: $code on plain, $got on the router";
		push @found, "          plain: $plain->{M}" if $plain;
		push @found, "          router: $router->{M}" . ($router->{D} ? " ($router->{D})" : '') if $router && $router->{M};
		return @found;
	}
	return if $code !~ /^2[123]/ || $statement->{notes}{sqlstate};
	for my $field ([ M => 'message' ], [ D => 'detail' ], [ n => 'constraint' ], [ s => 'schema' ], [ t => 'table' ], [ c => 'column' ])
	{
		my ($a, $b) = map { $_->{ $field->[0] } // '' } $plain, $router;
		push @found, "$field->[1]: \"$a\" on plain, \"$b\" on the router" if $a ne $b;
	}
	return @found;
}

# As a list of lines, or as a bag of them.
sub _compare_rows
{
	my ($plain, $router, $ordered) = @_;
	my (@found, %bag, @missing, @extra);

	return if @$plain == @$router && join("\n", @$plain) eq join("\n", @$router);
	$bag{$_}++ for @$plain;
	$bag{$_}-- for @$router;
	for my $row (@$plain)
	{
		push @missing, $row if $bag{$row} > 0 && $bag{$row}--;
	}
	for my $row (@$router)
	{
		push @extra, $row if $bag{$row} < 0 && ++$bag{$row} <= 0;
	}
	if (!@missing && !@extra)
	{
		return if !$ordered;
		my ($i) = grep { $plain->[$_] ne $router->[$_] } 0 .. $#$plain;
		return ("order: row $i is", "   plain:  " . _shorten($plain->[$i]), "   router: " . _shorten($router->[$i]));
	}
	push @found, sprintf 'rows: %d on plain, %d on the router; %d are missing, %d should not be there', scalar @$plain, scalar @$router, scalar @missing, scalar @extra;
	push @found, map { '   - ' . _shorten($_) } @missing[ 0 .. ($#missing < 4 ? $#missing : 4) ];
	push @found, map { '   + ' . _shorten($_) } @extra[ 0 .. ($#extra < 4 ? $#extra : 4) ];
	return @found;
}

sub _row_text
{
	my ($row) = @_;
	return join ' | ', map { !defined $_ ? 'NULL' : $_ eq 'NULL' || $_ eq '' || / \| / ? "\"$_\"" : $_ } @$row;
}

sub _shorten
{
	my ($line) = @_;
	$line =~ s/\n/\\n/g;
	return length $line > 240 ? substr($line, 0, 200) . ' ... ' . substr($line, -30) . ' (' . length($line) . ' bytes)' : $line;
}

sub _error_text
{
	my ($result) = @_;
	my $error = $result->{error} // return '';
	return sprintf ' (%s %s)', $error->{C} // '', $error->{M} // '';
}

# Columns or parameters with the names of their types; oids of types differ
# between databases.
sub _describe
{
	my ($self, $side, $list) = @_;

	return 'none' if !$list;
	return join ', ', map {
		my ($name, $type, $typmod) = ref $_ ? @$_ : ('', $_, -1);
		"$name " . $self->_type_name($side, $type) . ($typmod == -1 ? '' : "[$typmod]");
	} @$list;
}

sub _type_name
{
	my ($self, $side, $oid) = @_;
	my $names = $self->{types}{$side} //= {};

	return $names->{$oid} if $names->{$oid};
	return $oid if $self->{$side}->state eq 'E';
	my ($result) = $self->{$side}->simple("SELECT ${oid}::regtype");
	return $names->{$oid} = $result->{rows}[0][0] // $oid;
}

# After a write: the whole table is the same on both sides, and every row is
# where it belongs.
sub _check_written
{
	my ($self, $statement, $result) = @_;
	my $good = 1;

	return 1 if $result->{error} || $statement->{notes}{runs} || $self->{router}->state eq 'E';
	for my $table (@{ $statement->{writes} })
	{
		$good &= $self->_compare_table($table, $statement);
		next if !$self->{after_write};
		my $problem = $self->{after_write}->($self->{router}, $table) // next;
		$self->_report($statement, 'after it', $problem);
		$good = 0;
	}
	return $good;
}

sub _compare_table
{
	my ($self, $table, $statement) = @_;
	my %probe = (sql => $self->{probes}{$table} // "SELECT * FROM $table", notes => {}, line => $statement ? $statement->{line} : 0,
		file => $statement ? $statement->{file} : 'at the end');
	my ($plain) = $self->{plain}->simple($probe{sql});
	my ($router) = $self->{router}->simple($probe{sql});

	$self->_count_timeout($router);
	# A name that is no table's, such as that of a CTE.
	return 1 if $plain->{error};
	my @found = $self->compare(\%probe, $plain, $router);
	$self->_report($statement // \%probe, "after it, $table", @found) if @found;
	return !@found;
}

sub _report
{
	my ($self, $statement, $protocol, @problems) = @_;
	my $sql = _shorten_statement($statement->{sql});

	$sql .= "\n-- with " . join(' | ', map { join ', ', map { $_ // 'NULL' } @$_ } @{ $statement->{notes}{with} }) if $statement->{notes}{with};
	$self->_say("== $statement->{file}:$statement->{line} ($protocol)\n$sql\n" . join('', map { "   $_\n" } map { split /\n/ } @problems));
	return;
}

sub _shorten_statement
{
	my ($sql) = @_;
	return length $sql > 1500 ? substr($sql, 0, 1500) . ' ...' : $sql;
}

sub _say
{
	my ($self, $text) = @_;
	open my $log, '>>', $self->{log} or die "$self->{log}: $!";
	print $log $text;
	close $log;
	diag($text);
	return;
}

# read_list(file): the paragraphs of a list, each a hash of "notes" and
# "statements".
my $token = qr{
	( (?<![\w])[Ee]'(?:[^'\\]|\\.|'')*'
	| '(?:[^']|'')*'
	| "[^"]*"
	| \$((?:[A-Za-z_]\w*)?)\$ .*? \$\g{-1}\$
	| --[^\n]*
	| /\* .*? \*/
	| \n[ \t]*(?=\n)
	| ;
	| .
	)
}xs;

sub read_list
{
	my ($file) = @_;
	my (@paragraphs, @statements, $sql, @notes, $first, $at);
	my $line = 1;

	open my $handle, '<:raw', $file or die "$file: $!";
	my $all = do { local $/; <$handle> };
	close $handle;
	($at) = $file =~ m{([^/]+)$};
	$sql = '';
	my $end_paragraph = sub {
		push @paragraphs, { statements => [@statements], notes => { map { %{ $_->{notes} } } @statements } } if @statements;
		@statements = ();
	};
	while ($all =~ /\G$token/gc)
	{
		my $piece = $1;
		my $here = $line;
		$line += $piece =~ tr/\n//;
		if ($sql eq '' && $piece =~ /^--\s*(.*)/)
		{
			push @notes, $1;
		}
		elsif ($sql eq '' && $piece =~ /^\s*$/)
		{
			# A blank line ends a paragraph; a comment that stands alone belongs to nothing.
			next if $piece !~ /\n/ || $all !~ /\G\n/;
			$end_paragraph->();
			@notes = ();
		}
		elsif ($piece eq ';')
		{
			my $copy;
			if ($sql =~ /^COPY\b.*\bFROM\s+STDIN\b/is)
			{
				$all =~ /\G\n(.*?)^\\\.$/gcms or die "$file:$here: COPY without its rows\n";
				$copy = $1;
				$line += ($copy =~ tr/\n//) + 1;
			}
			push @statements, _statement($sql, $copy, $at, $first, @notes);
			($sql, @notes) = ('');
		}
		else
		{
			$first = $here if $sql eq '';
			$sql .= $piece;
		}
	}
	die "$file: the last statement has no end\n" if $sql =~ /\S/;
	$end_paragraph->();
	return @paragraphs;
}

sub _statement
{
	my ($sql, $copy, $file, $line, @comments) = @_;
	my %notes = map { _note($_) } @comments;
	my $bare = $sql;
	my @writes;

	# Without what is quoted, and then without what is in parentheses.
	$bare =~ s/$token/my $t = $1; $t =~ m{^([Ee]?'|\$|--|\/\*)}s && length $t > 1 ? "''" : $t/gex;
	my $flat = $bare;
	1 while $flat =~ s/\([^()]*\)//g;

	my $name = qr/((?:"[^"]+"|\w+)(?:\.(?:"[^"]+"|\w+))?)/;
	push @writes, $1 while $bare =~ /\b(?:INSERT\s+INTO|DELETE\s+FROM|TRUNCATE(?:\s+TABLE)?)\s+(?:ONLY\s+)?$name/gi;
	push @writes, $1 while $bare =~ /(?:^|\(\s*)UPDATE\s+(?:ONLY\s+)?$name/gi;
	push @writes, $1 while $bare =~ /\)\s*UPDATE\s+$name\s+(?:AS\s+|\w+\s+)?SET\b/gi;
	push @writes, $1 if defined $copy && $bare =~ /^COPY\s+$name/i;
	push @writes, split /[\s,]+/, $notes{writes} if $notes{writes};
	@writes = () if $bare =~ /^(CREATE|DO|DECLARE|EXPLAIN|PREPARE)\b/i && !$notes{writes};
	my $is_plannable = $bare =~ /^\(*\s*(SELECT|VALUES|TABLE|WITH|INSERT|UPDATE|DELETE)\b/i;

	return {
		sql => $sql, copy => $copy, file => $file, line => $line, notes => \%notes, writes => \@writes,
		is_plannable => $is_plannable,
		is_query => $is_plannable && !@writes && $bare !~ /^\(*\s*(INSERT|UPDATE|DELETE)\b/i && $flat !~ /\bINTO\b/i,
		is_ordered => !!($notes{ordered} || !$notes{'any order'} && $flat =~ /\bORDER\s+BY\b/i),
	};
}

# What a comment before a statement asks for; other comments are for the reader.
sub _note
{
	my ($comment) = @_;

	return ($1 => 1) if $comment =~ /^(transaction|ordered|any order|runs|fails|sqlstate|resets)\s*$/;
	return (fails => $1) if $comment =~ /^fails (\w{5})\s*$/;
	return (since => $1) if $comment =~ /^since (\d+)\s*$/;
	return (writes => $1) if $comment =~ /^writes (.*?)\s*$/;
	return (with => [ map { [ map { $_ eq 'NULL' ? undef : $_ } split / ?, /, $_, -1 ] } split / \| /, $1, -1 ])
		if $comment =~ /^with (.*)$/;
	return ();
}

1;
