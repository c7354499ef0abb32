// Knex: schema builder with migrations, queries, columnInfo.
const {section, show, fails} = require('./show')

const first = {
	up: async knex => {
		await knex.schema.createTable('shops', table => {
			table.bigIncrements('id')
			table.string('name').notNullable()
			table.timestamps(true, true)
		})
		await knex.schema.createTable('products', table => {
			table.bigInteger('shop_id').notNullable().references('shops.id').onDelete('CASCADE')
			table.bigIncrements('id', {primaryKey: false})
			table.string('title', 80).notNullable()
			table.decimal('price', 10, 2).checkPositive('products_price')
			table.jsonb('data').defaultTo('{}')
			table.enu('kind', ['book', 'film'], {useNative: true, enumName: 'product_kind'}).defaultTo('book')
			table.specificType('tags', 'text[]')
			table.primary(['shop_id', 'id'])
			table.unique(['shop_id', 'title'], {indexName: 'products_title'})
			table.index('price', 'products_by_price')
		})
		await knex.raw("SELECT shardlet.distribute_tables('{shops, products}', 'tenants', '{id, shop_id}')")
	},
	down: knex => knex.schema.dropTable('products').dropTable('shops').raw('DROP TYPE product_kind'),
}
const second = {
	up: async knex => {
		await knex.schema.alterTable('products', table => {
			table.string('code', 20)
			table.boolean('sold').notNullable().defaultTo(false)
			table.unique(['shop_id', 'code'], {indexName: 'products_code'})
			table.dropIndex('price', 'products_by_price')
			table.index(['shop_id', 'kind'], 'products_kind')
			table.renameColumn('data', 'document')
			table.string('title', 200).notNullable().alter()
			table.comment('what shops sell')
		})
		await knex.schema.createTable('reviews', table => {
			table.bigInteger('shop_id').notNullable().references('shops.id')
			table.bigIncrements('id', {primaryKey: false})
			table.bigInteger('product_id').notNullable()
			table.text('body')
			table.primary(['shop_id', 'id'])
		})
		await knex.raw("SELECT shardlet.distribute('reviews', 'tenants', 'shop_id')")
		await knex.schema.alterTable('reviews', table => table.foreign(['shop_id', 'product_id'], 'reviews_product').references(['shop_id', 'id']).inTable('products').onDelete('CASCADE'))
	},
	down: async knex => {
		await knex.schema.dropTable('reviews')
		await knex.schema.alterTable('products', table => {
			table.string('title', 80).notNullable().alter()
			table.renameColumn('document', 'data')
			table.dropIndex([], 'products_kind')
			table.index('price', 'products_by_price')
			table.dropUnique([], 'products_code')
			table.dropColumns('code', 'sold')
		})
	},
}
const sources = {first, second}
const knex = require('knex')({client: 'pg', connection: {}, pool: {min: 0, max: 4},
	migrations: {migrationSource: {getMigrations: async () => ['first', 'second'], getMigrationName: name => name, getMigration: async name => sources[name]}}})

async function reflect() {
	for (const table of ['shops', 'products', 'reviews']) {
		show(table, await knex.schema.hasTable(table), await knex(table).columnInfo())
		show((await knex.raw('SELECT indexdef FROM pg_indexes WHERE tablename = ? ORDER BY 1', [table])).rows,
			(await knex.raw('SELECT conname, pg_get_constraintdef(oid) AS definition FROM pg_constraint WHERE conrelid = to_regclass(?) ORDER BY 1', [table])).rows)
	}
}

async function main() {
	section('knex: migrations')
	await knex.migrate.up()
	await reflect()
	await knex.migrate.rollback()
	await reflect()
	show((await knex.migrate.latest())[1])
	await reflect()
	await knex.migrate.down()
	await reflect()
	show((await knex.migrate.up())[1])

	section('knex: queries')
	show(await knex('shops').insert([...Array(8).keys()].map(n => ({name: 'shop ' + n, created_at: '2026-01-01'})), ['id', 'name']))
	show((await knex.batchInsert('products', [...Array(100).keys()].map(n => ({shop_id: n % 8 + 1, title: 'title ' + n, price: n + 1, code: 'c' + n,
		kind: n % 2 ? 'book' : 'film', tags: ['t' + n], document: {n}})), 30).returning(['shop_id', 'id'])).length)
	show(await knex('products').where({shop_id: 3}).orderBy('id').select('id', 'title', 'price', 'document', 'kind', 'tags', 'sold'))
	show(await knex('shops').join('products', 'products.shop_id', 'shops.id').groupBy('shops.id', 'name').orderBy('shops.id').select('name').sum('price').count('* as n').havingRaw('count(*) > 12'))
	show(await knex('products').whereIn('shop_id', [1, 2]).andWhere('price', '>', 50).orderBy('price', 'desc').limit(3).pluck('title'),
		await knex('products').countDistinct('shop_id as n').first(), await knex('products').whereJsonPath('document', '$.n', '=', 5).pluck('title'),
		await knex.with('dear', knex('products').where('price', '>', 95)).select('title').from('dear').orderBy('title'),
		await knex('products').select('shop_id').rank('rank', table => table.partitionBy('shop_id').orderBy('price', 'desc')).orderBy('shop_id').orderBy('rank').limit(3))
	show(await knex('products').where({shop_id: 1, code: 'c0'}).update({sold: true}, ['title', 'sold']), await knex('products').where('price', '<', 10).increment('price', 1),
		await knex('products').insert({shop_id: 1, title: 'title 0', price: 5}).onConflict(['shop_id', 'title']).merge(['price']).returning(['price', 'sold']),
		(await knex('products').insert({shop_id: 1, title: 'title 0', price: 6}).onConflict(['shop_id', 'title']).ignore()).rowCount,
		await knex('products').where({shop_id: 5}).whereRaw('id % 2 = 0').del(), (await knex('products').select('id').orderBy('id').first()).id)

	section('knex: transactions and errors')
	await knex.transaction(async transaction => {
		await transaction('shops').insert({id: 100, name: 'outer'})
		await transaction.transaction(async inner => {
			await inner('shops').insert({id: 101, name: 'inner'})
			throw new Error('undo')
		}).catch(error => show(error.message))
		show((await transaction('products').where({shop_id: 2}).orderBy('id').limit(2).forUpdate().pluck('id')).length, await knex('products').where({shop_id: 2, code: 'c1'}).forUpdate().skipLocked().pluck('code'))
	})
	show(await knex('shops').where('id', '>=', 100).pluck('id'))
	await fails(knex('products').insert({shop_id: 1, title: 'title 0', price: 1}))
	await fails(knex('products').insert({shop_id: 4711, title: 'x', price: 1}))
	await fails(knex('products').insert({shop_id: 1, title: 'x', price: -1}))
	await fails(knex('products').insert({shop_id: 1, title: null, price: 1}))
	await fails(knex('reviews').insert({shop_id: 1, product_id: 4711}))
	await knex('reviews').insert({shop_id: 1, product_id: (await knex('products').where({shop_id: 1}).min('id as id'))[0].id, body: 'good'})
	await knex('shops').where({id: 1}).del().catch(error => show(error.code, error.constraint))
	await knex('reviews').truncate()
	show(await knex('shops').where({id: 1}).del(), await knex('products').where({shop_id: 1}).count('* as n').first())
	await knex.destroy()
}

main().catch(error => { console.error(error); process.exit(1) })
