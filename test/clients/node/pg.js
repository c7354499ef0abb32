// node-postgres: pool, named statements, types, cursors, transactions, NOTIFY.
const {Pool, Client} = require('pg')
const Cursor = require('pg-cursor')
const {section, show, fails} = require('./show')

const pool = new Pool({max: 4})
const own = oid => oid >= 16384 ? 'own' : oid
const run = async (...query) => {
	const {command, rowCount, fields, rows} = await pool.query(...query)
	show([command, rowCount, fields.map(field => [field.name, own(field.dataTypeID)])], ...rows)
}

async function main() {
	section('pg: schema')
	await pool.query(`CREATE TYPE level AS ENUM ('low', 'high');
		CREATE TABLE places (id bigserial PRIMARY KEY, name text NOT NULL, level level DEFAULT 'low');
		CREATE TABLE visits (place_id bigint REFERENCES places ON DELETE CASCADE, id bigint GENERATED ALWAYS AS IDENTITY, at timestamptz DEFAULT '2026-01-01',
			doc jsonb, amount float8, raw bytea, tags int[], PRIMARY KEY (place_id, id));
		SELECT shardlet.distribute_tables('{places, visits}', 'tenants', '{id, place_id}')`)
	await run('SELECT table_name, column_name, data_type, column_default, is_identity FROM information_schema.columns WHERE table_schema = $1 ORDER BY 1, ordinal_position', ['public'])

	section('pg: writes')
	for (let n = 0; n < 8; n++)
		await run('INSERT INTO places (name) VALUES ($1) RETURNING id, level', ['place ' + n])
	for (let n = 0; n < 40; n++)
		await pool.query({name: 'visit', text: 'INSERT INTO visits (place_id, doc, amount, raw, tags) VALUES ($1, $2, $3, $4, $5) RETURNING id',
			values: [n % 8 + 1, n % 3 ? {n, deep: {list: [n]}} : null, n / 4, Buffer.from([n, 0, 255]), [n, n + 1]]})
	await run('SELECT * FROM visits WHERE place_id = $1 ORDER BY id', [3])
	await run({text: 'SELECT id, amount FROM visits ORDER BY id LIMIT 3', rowMode: 'array'})
	await run('INSERT INTO places (id, name) SELECT i, n FROM unnest($1::bigint[], $2::text[]) AS u (i, n) RETURNING id', [[100, 101, 102], ['a', 'b', 'c']])
	await run("INSERT INTO visits (place_id, id, amount) OVERRIDING SYSTEM VALUE VALUES ($1, $2, $3) ON CONFLICT (place_id, id) DO UPDATE SET amount = EXCLUDED.amount RETURNING amount, at", [1, 1, 99])
	await run('UPDATE visits SET amount = amount + $1 WHERE place_id = ANY($2)', [1, [1, 2, 3]])
	await run('DELETE FROM places WHERE id = $1', [8])
	await run('SELECT p.name, count(v.id), sum(v.amount) FROM places p LEFT JOIN visits v ON v.place_id = p.id GROUP BY p.id ORDER BY p.id')
	await Promise.all([...Array(30).keys()].map(n => pool.query('UPDATE visits SET amount = amount + 1 WHERE place_id = $1', [n % 7 + 1])))
	await run('SELECT sum(amount) FROM visits')

	section('pg: errors and transactions')
	await fails(pool.query('INSERT INTO places (id, name) VALUES (1, $1)', ['twice']))
	await fails(pool.query('INSERT INTO visits (place_id) VALUES (4711)'))
	await fails(pool.query('INSERT INTO places (name) VALUES (NULL)'))
	await fails(pool.query('SELECT * FROM visits WHERE id = $1', ['no number']))
	const client = await pool.connect()
	await client.query('BEGIN')
	await client.query("UPDATE places SET name = 'kept' WHERE id = 1")
	await client.query('SAVEPOINT one')
	await fails(client.query("INSERT INTO places (id, name) VALUES (2, 'twice')"))
	await client.query('ROLLBACK TO SAVEPOINT one')
	show((await client.query('SELECT id FROM visits WHERE place_id = 2 ORDER BY id FOR UPDATE')).rows)
	show((await pool.query('SELECT id FROM visits WHERE place_id = 2 FOR UPDATE SKIP LOCKED')).rows)
	await client.query('COMMIT')
	show((await client.query("BEGIN; UPDATE places SET level = 'high' WHERE id < 3; SELECT name FROM places WHERE id = 1; COMMIT")).map(result => [result.command, result.rowCount]))
	const cursor = client.query(new Cursor('SELECT id FROM visits ORDER BY id'))
	show(await cursor.read(5), await cursor.read(3))
	await cursor.close()
	client.release()

	section('pg: statements that were prepared before a migration')
	const select = {name: 'places', text: 'SELECT id, name FROM places WHERE id = $1'}
	const one = new Client()
	await one.connect()
	show((await one.query(select, [1])).rows)
	await pool.query('ALTER TABLE places ADD COLUMN note text; CREATE INDEX ON places (name); ALTER TABLE places ALTER name TYPE varchar(50)')
	await fails(one.query({...select, values: [1]}))
	await one.query('LISTEN moved')
	const told = new Promise(resolve => one.once('notification', message => resolve(message.payload)))
	await pool.query("BEGIN; UPDATE places SET note = 'n' WHERE id IN (1, 2, 3); NOTIFY moved, 'places'; COMMIT")
	show(await told)
	await one.end()
	await pool.query('DROP TABLE visits, places; DROP TYPE level')
	await pool.end()
}

main().catch(error => { console.error(error); process.exit(1) })
